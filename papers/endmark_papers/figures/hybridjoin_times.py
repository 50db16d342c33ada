"""HYBRIDJOIN's figures 10a and 10b: the processing time and the waiting time of a row.

Paper: HYBRIDJOIN (UoA-SE-2010-2), sections 3 and 6.2.1. Reads are counted in the literal algorithms, and
a read takes the engine's time (`hybridjoin_clock`). The paper leaves INLJ out of figure 10a, since its
processing time is always one lookup.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from endmark_feed.bursts import arrival_blocks
from endmark_feed.options import random_stream
from endmark_feed.zipf import zipf_keys
from endmark_papers.algorithms.hybridjoin import HybridJoin
from endmark_papers.algorithms.inlj import IndexNestedLoopJoin
from endmark_papers.algorithms.meshjoin import MeshJoin
from endmark_papers.algorithms.relation import MasterRow, PagedRelation, ReferenceLookup
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.figure import Claim, Curve, Figure, Measurement, Panel, verdict
from endmark_papers.figures.hybridjoin_clock import PAGE_ROWS, Floats, ReadSeconds, Times, run

SEEDS = range(1, 4)
RATES = (125, 250, 500, 1_000, 2_000, 4_000, 8_000)
PAPER_RATES = 5  # of RATES, those up to 2,000
SECONDS = 20
LOOP_ROWS = 79  # of MESHJOIN at 50 MB and 2 M rows of R, as the paper's authors had them
PAGES = 400
SIZES = (0.5, 1.0, 2.0, 4.0, 8.0)  # million rows of R
# So many times fewer rows of R, of a page and in memory. R has as many pages as in the paper.
SMALLER = 20
MEMORY_ROWS = 16_000


def measure_processing(scale: float) -> Figure:
    """Measure figure 10a."""
    costs = ReadSeconds.measured()
    return processing(costs, scale)


def processing(costs: ReadSeconds, scale: float) -> Figure:
    """Return figure 10a.

    Args:
        costs: seconds of reads.
        scale: the scale; a smaller one takes smaller pages and shorter streams.
    """
    panels = [full_memory(costs, scale), by_rate(costs, scale)[0]]
    return Figure(
        name="hj-10a",
        title="HYBRIDJOIN, figure 10a: processing time of a row",
        setup=(
            "Left, memory is full: R has the paper's number of pages, and rows of R, of a page and in memory "
            f"are {SMALLER} times fewer. Right, rows come in bursts: R has {PAGES} pages, and MESHJOIN takes "
            f"{LOOP_ROWS} rows a loop, as at 50 MB and 2 M rows. {len(SEEDS)} seeds, mean and 95 % interval. "
            f"Reads are counted in the literal algorithms. {costs.text()}"
        ),
        panels=panels,
        claims=processing_claims(panels, costs),
    )


def processing_claims(panels: Sequence[Panel], costs: ReadSeconds) -> list[Claim]:
    """Return figure 10a's claims and what the curves say of them.

    Args:
        panels: processing times with full memory by size of R, and by rate of arrival.
        costs: seconds of reads, with which the curves were made.
    """
    full, by_rates = (_ratios(panel.curves[0], panel.curves[1]) for panel in panels)
    bursts = by_rates[:PAPER_RATES]
    mesh = panels[0].curves[1]
    halves = [
        milliseconds / (pages * 1e3 * costs.page / 2)
        for milliseconds, pages in zip(mesh.y, (size * 1e6 / PAGE_ROWS for size in mesh.x), strict=True)
    ]
    return [
        Claim(
            claim="Under bursts, HYBRIDJOIN's processing time is far smaller than MESHJOIN's.",
            paper="drawn on a log axis, no figure",
            ours=(
                f"{min(bursts):,.0f} to {max(bursts):,.0f} times smaller at {RATES[0]} to "
                f"{RATES[PAPER_RATES - 1]:,} rows/s"
            ),
            verdict=verdict(holds=min(bursts) > 10, in_shape=min(bursts) > 1),
        ),
        Claim(
            claim="HYBRIDJOIN's processing time is far smaller for every size of R.",
            paper="drawn on a log axis, no figure",
            ours=(
                f"with full memory {', '.join(f'{ratio:.2f}' for ratio in full)} times smaller at "
                f"{', '.join(f'{size:g}' for size in SIZES)} M rows"
            ),
            verdict=verdict(holds=min(full) > 10, in_shape=min(full) > 1),
            why=(
                "Both hold as many rows. A row's time in memory is these rows over the rows that a read "
                "answers (Little's law), and HYBRIDJOIN's reads answer about twice as many. But MESHJOIN "
                "matches a row half-way through its time in memory. So only skew makes a difference."
            ),
        ),
        Claim(
            claim="MESHJOIN's processing time is half of the time to read all of R.",
            paper="half a reading of R",
            ours=f"{min(halves):.2f} to {max(halves):.2f} times that",
            verdict=verdict(holds=max(abs(half - 1) for half in halves) < 0.1, in_shape=max(halves) < 2),
        ),
    ]


def measure_waiting(scale: float) -> Figure:
    """Measure figure 10b."""
    return waiting(ReadSeconds.measured(), scale)


def waiting(costs: ReadSeconds, scale: float) -> Figure:
    """Return figure 10b.

    Args:
        costs: seconds of reads.
        scale: the scale; a smaller one takes smaller pages and shorter streams.
    """
    panels = list(by_rate(costs, scale)[1:])
    return Figure(
        name="hj-10b",
        title="HYBRIDJOIN, figure 10b: waiting time of a row by rate of arrival",
        setup=(
            f"Self-similar bursts of {SECONDS * scale:g} s; R has {PAGES} pages, and MESHJOIN takes "
            f"{LOOP_ROWS} rows a loop, as at 50 MB and 2 M rows. {len(SEEDS)} seeds, mean and 95 % interval. "
            f"Reads are counted in the literal algorithms. {costs.text()}"
        ),
        panels=panels,
        claims=waiting_claims(panels, costs),
    )


def waiting_claims(panels: Sequence[Panel], costs: ReadSeconds) -> list[Claim]:
    """Return figure 10b's claims and what the curves say of them.

    Args:
        panels: waiting times by rate of arrival.
        costs: seconds of reads, with which the curves were made.
    """
    hybrid, mesh, inlj = panels[0].curves
    ratios = _ratios(hybrid, mesh)[:PAPER_RATES]
    loops = [wait / (1e3 * LOOP_ROWS / rate) for rate, wait in zip(mesh.x, mesh.y, strict=True)][:PAPER_RATES]
    growth = [after / before for before, after in pairwise(inlj.y)]
    cross = crossing(hybrid, inlj)
    most = 1 / costs.key
    as_printed = cross is not None and 75 < cross < 300
    return [
        Claim(
            claim="A row waits longer in MESHJOIN than in HYBRIDJOIN.",
            paper="no figure",
            ours=f"{min(ratios):,.0f} to {max(ratios):,.0f} times as long at {RATES[0]} to 2,000 rows/s",
            verdict=verdict(holds=min(ratios) > 1, in_shape=max(ratios) > 1),
        ),
        Claim(
            claim="MESHJOIN's waiting time is w over the rate of arrival.",
            paper="w / rate",
            ours=f"{min(loops):,.0f} to {max(loops):,.0f} times that",
            verdict=verdict(holds=max(loops) < 1.1, in_shape=False),
            why=(
                "That is the wait for the input of one loop. A row waits for that before every read until "
                f"its own page comes, on average {PAGES / 2:,.0f} times with {PAGES} pages."
            ),
        ),
        Claim(
            claim="INLJ's waiting time grows exponentially with the rate of arrival.",
            paper="no figure",
            ours=(
                f"each time the rate doubles, it is {', '.join(f'{factor:.1f}' for factor in growth)} times "
                "as long"
            ),
            verdict=verdict(holds=False, in_shape=min(growth) > 1),
            why=(
                f"Up to {most:,.0f} rows/s INLJ keeps up with the mean, and only bursts queue. Beyond that "
                "its queue grows for as long as the stream runs, and so has no mean."
            ),
        ),
        Claim(
            claim="At low rates a row waits longer in HYBRIDJOIN than in INLJ, and shorter at higher rates.",
            paper="they cross at 150 rows/s",
            ours="they do not cross" if cross is None else f"they cross at {cross:,.0f} rows/s",
            verdict=verdict(holds=as_printed, in_shape=cross is not None),
            why=""
            if as_printed
            else (
                f"INLJ keeps up with {most:,.0f} rows/s, since a key takes {1e3 * costs.key:.2f} ms from a "
                "database in memory. The paper's disk took longer."
            ),
        ),
    ]


def crossing(rising_less: Curve, rising_more: Curve) -> float | None:
    """Return the position from which a curve is above another one; `None` if it never is, or from the start.

    Args:
        rising_less: the other curve.
        rising_more: the curve that is above in the end, at the same positions.
    """
    above = np.log(rising_more.y) - np.log(rising_less.y)
    for at, (before, after) in enumerate(pairwise(above.tolist())):
        if before <= 0 < after:
            share = -before / (after - before)
            return float(rising_less.x[at] * (rising_less.x[at + 1] / rising_less.x[at]) ** share)
    return None


@cache
def by_rate(costs: ReadSeconds, scale: float) -> tuple[Panel, Panel]:
    """Return the processing times and the waiting times by rate of arrival; both are of the same runs.

    Args:
        costs: seconds of reads.
        scale: the scale.
    """
    page_rows = max(1, round(PAGE_ROWS * scale))
    relation = _relation(PAGES * page_rows, page_rows)
    found: dict[str, list[list[Times]]] = {"HYBRIDJOIN": [], "MESHJOIN": [], "INLJ": []}
    for seed in SEEDS:
        for name, times in found.items():
            times.append([_bursts(name, relation, rate, SECONDS * scale, seed, costs) for rate in RATES])
    labels = {"processing": "processing time, ms a row", "waiting": "waiting time, ms a row"}
    first, second = (
        Panel(
            title="rows come in bursts",
            x="rows a second",
            y=label,
            log_x=True,
            log_y=True,
            curves=[
                mean_curve(
                    name,
                    RATES,
                    [[1e3 * time._asdict()[kind] for time in times] for times in runs],
                    digits=5,
                )
                for name, runs in found.items()
                if kind == "waiting" or name != "INLJ"
            ],
        )
        for kind, label in labels.items()
    )
    return first, second


def full_memory(costs: ReadSeconds, scale: float) -> Panel:
    """Return the processing times by size of R, where the stream is never empty.

    Args:
        costs: seconds of reads.
        scale: the scale.
    """
    memory = round(MEMORY_ROWS * scale)
    found: dict[str, list[list[float]]] = {"HYBRIDJOIN": [], "MESHJOIN": []}
    for seed in SEEDS:
        runs: dict[str, list[float]] = {name: [] for name in found}
        for size in SIZES:
            relation = _relation(round(size * 1e6 / SMALLER * scale), PAGE_ROWS // SMALLER)
            keys = zipf_keys(random_stream(seed, "full memory"), 10 * memory, 1.0, len(relation))
            joins: dict[str, ReferenceLookup] = {
                "HYBRIDJOIN": HybridJoin(relation, memory),
                "MESHJOIN": MeshJoin(relation, memory // relation.pages),
            }
            for name, join in joins.items():
                later = slice(3 * memory, 4 * memory)
                times = run(join, keys, np.zeros(len(keys)), costs.page, later)
                runs[name].append(1e3 * times.processing / scale)
        for name, times_of_seed in runs.items():
            found[name].append(times_of_seed)
    return Panel(
        title="memory is full",
        x="rows of R, million",
        y="processing time, ms a row",
        log_x=True,
        log_y=True,
        curves=[mean_curve(name, SIZES, runs_of_name, digits=2) for name, runs_of_name in found.items()],
    )


def _bursts(
    name: str, relation: PagedRelation, rate: int, seconds: float, seed: int, costs: ReadSeconds
) -> Times:
    """Return the mean times of the rows of the first `seconds`. After these, the same bursts come again."""
    rows = round(rate * seconds)
    memory = LOOP_ROWS * relation.pages
    turns = 2 + memory // rows if name == "MESHJOIN" else 2
    even = np.concatenate(list(arrival_blocks(random_stream(seed, "bursts"), rows, seconds)))
    # Rows within a burst come at random, not at equal distances, at which none would ever wait for another.
    at_random = np.sort(random_stream(seed, "within bursts").random(rows)) * rows
    once = np.interp(at_random, np.arange(rows) + 0.5, even)
    arrivals: Floats = np.concatenate([once + turn * seconds for turn in range(turns)])
    keys: NDArray[np.int64] = zipf_keys(random_stream(seed, "keys"), len(arrivals), 1.0, len(relation))
    if name == "INLJ":
        return run(IndexNestedLoopJoin(relation), keys, arrivals, costs.key, slice(rows))
    join = HybridJoin(relation, memory) if name == "HYBRIDJOIN" else MeshJoin(relation, LOOP_ROWS)
    return run(join, keys, arrivals, costs.page, slice(rows))


def _relation(rows: int, page_rows: int) -> PagedRelation:
    return PagedRelation([MasterRow(key, key) for key in range(1, rows + 1)], page_rows)


def _ratios(less: Curve, more: Curve) -> list[float]:
    return [larger / smaller for smaller, larger in zip(less.y, more.y, strict=True)]


MEASUREMENTS = [Measurement("hj-10a", measure_processing), Measurement("hj-10b", measure_waiting)]
