"""The terminal view of a running demo."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rich.table import Table

from endmark.control.description import Description
from endmark.metrics import Samples, sample, total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.control.ops_database.database import OpsDatabase

_ALL = 1_000_000  # batches of a demo, of which none lasts for days
_BESIDE = 3  # figures of a line; with four, their names were cut off in a terminal of 80 characters


@dataclass
class DemoState:
    """The sources of the view's numbers.

    Args:
        pipeline: the pipeline's name.
        url: the dashboard's URL.
        ops: the ops database.
        fed: the number of records that the feed has sent.
    """

    pipeline: str
    url: str
    ops: OpsDatabase
    fed: int = 0


def live_view(state: DemoState) -> Table:
    """Return a small table of the job's totals and state, of up to 80 characters in a line."""
    table = Table.grid(padding=(0, 1))
    for _ in range(_BESIDE):
        table.add_column(justify="right", min_width=10, no_wrap=True)
        table.add_column(style="dim", no_wrap=True)
    figures = [*_figures(state)]
    for at in range(0, len(figures), _BESIDE):
        table.add_row(*chain.from_iterable(figures[at : at + _BESIDE]))
    return table


def _figures(state: DemoState) -> Iterator[tuple[str, str]]:
    """Yield figures, each with its name."""
    batch = state.ops.batches.latest(state.pipeline)
    run = state.ops.runs.latest(state.pipeline)
    totals = batch.totals if batch else {}
    seconds = totals.get("batch_seconds{phase=total}", 0.0)
    yield f"{state.fed:,}", "fed"
    yield _sum(totals, "records_total"), "read"
    yield run["state"] if run else "starting", "job"
    yield f"{batch.batch_id + 1:,}" if batch else "0", "batches"
    yield f"{seconds:.2f} s", "last batch"
    yield _sum(totals, "lookup_reads_total"), "lookup reads"
    yield _sum(totals, "join_results_total"), "joined"
    yield _sum(totals, "groups_closed_total"), "groups final"
    yield _sum(totals, "dead_letters_total"), "dead letters"
    yield _sum(totals, "state_rows", operator="join"), "live rows"
    yield _sum(totals, "join_purged_rows_total"), "purged"
    yield _sum(totals, "join_invalidated_rows_total"), "out of window"
    yield _sum(totals, "join_dropped_rows_total"), "never stored"
    yield _sum(totals, "violations_total"), "violations"


def lookup_lines(state: DemoState) -> list[str]:
    """Say of each lookup what it has read, and how many rows have waited for it at most."""
    batches = state.ops.batches.after(state.pipeline, -1, _ALL)
    description = state.ops.pipelines.description(state.pipeline)
    if not batches or description is None:
        return []
    described = Description.model_validate(description)
    lines = []
    for lookup in described.lookups:
        pages, lists = (
            batches[-1].totals.get(sample("lookup_reads_total", relation=lookup.relation, by=by), 0.0)
            for by in ("page", "list")
        )
        waiting = sample("lookup_pending_rows", relation=lookup.relation)
        most = max(batch.samples.get(waiting, 0.0) for batch in batches)
        lines.append(
            f"lookup in {lookup.relation}, strategy {described.fields[lookup.field]['strategy']}: "
            f"{pages:,.0f} pages and {lists:,.0f} lists of keys read, at most {most:,.0f} rows waiting"
        )
    return lines


def _sum(totals: Samples, name: str, **labels: str) -> str:
    return f"{total(totals, name, **labels):,.0f}"
