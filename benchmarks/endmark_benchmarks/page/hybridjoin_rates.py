"""Tables of HYBRIDJOIN beside MESHJOIN: ratios, rates and rows a page, each beside its prediction."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from endmark_papers.experiments.report import Table, half_interval
from endmark_papers.figures.hybridjoin_rates import ratios

if TYPE_CHECKING:
    from collections.abc import Callable

Report = dict[str, Any]
Cell = dict[str, Any]
_PLACE = "rows of R, memory"


def hybridjoin_rates_tables(report: Report) -> list[Table]:
    """Return tables of the ratios of `hybrid`, of rows a page, and of rates for each kind of keys."""
    cells: list[Cell] = report["cells"]
    kinds = dict.fromkeys(_kind(cell) for cell in cells)
    found = [
        _by_kind(cells, "hybrid over MESHJOIN: measured, and predicted in brackets", _over_meshjoin),
        _by_kind(cells, "rows that a page answers: hybrid, MESHJOIN", _rows_a_page),
    ]
    return [*found, *(_rates(kind, [cell for cell in cells if _kind(cell) == kind]) for kind in kinds)]


def _by_kind(cells: list[Cell], title: str, said: Callable[[Cell], str]) -> Table:
    """Return a table with a row for each size and a column for each kind of keys."""
    kinds = list(dict.fromkeys(_kind(cell) for cell in cells))
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        rows.setdefault(_place(cell), {})[_kind(cell)] = said(cell)
    return Table(
        title, (_PLACE, *kinds), [[name, *(of.get(kind, "") for kind in kinds)] for name, of in rows.items()]
    )


def _over_meshjoin(cell: Cell) -> str:
    found = ratios(cell, "meshjoin")
    ours, theirs = (cell["contenders"][name]["predicted"] for name in ("hybrid", "meshjoin"))
    return f"{statistics.mean(found):.2f} ± {half_interval(found):.2f} ({ours / theirs:.2f})"


def _rows_a_page(cell: Cell) -> str:
    means = [statistics.mean(cell["contenders"][name]["rows_per_read"]) for name in ("hybrid", "meshjoin")]
    return ", ".join(f"{mean:,.0f}" for mean in means)


def _rates(kind: str, cells: list[Cell]) -> Table:
    names = list(cells[0]["contenders"])
    rows = [[_place(cell), *(_rate(cell["contenders"][name]) for name in names)] for cell in cells]
    return Table(f"Thousand rows/s, {kind}", (_PLACE, *names), rows)


def _rate(contender: dict[str, Any]) -> str:
    rates = [rate / 1000 for rate in contender["rates"]]
    mean = statistics.mean(rates)
    places = 0 if mean >= 10 else 1
    predicted = contender["predicted"]
    beside = "" if predicted is None else f" ({predicted / 1000:,.{places}f})"
    return f"{mean:,.{places}f} ± {half_interval(rates):,.{places}f}{beside}"


def _kind(cell: Cell) -> str:
    layout = "" if cell["exponent"] == 0 else f", {cell['layout']}"
    return f"exponent {cell['exponent']:g}{layout}"


def _place(cell: Cell) -> str:
    return f"{cell['relation_rows'] / 1e6:g} M, {cell['memory']} MB"
