"""HYBRIDJOIN's figure 6: the size of the disk buffer, the cost of a read and the service rate.

Paper: HYBRIDJOIN (UoA-SE-2010-2), section 4.5. The disk buffer and the rows that wait share the memory. The
engine reads 64 pages at once, so these are its disk buffer; the paper's is a single page.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from endmark_papers.figures.benchmark_results import read
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.figure import Claim, Figure, Measurement, Panel, verdict

AT_ONCE = 64


def measure(scale: float) -> Figure:
    """Draw the kept measurements. They have one size, so the scale changes nothing."""
    del scale
    return figure(read("disk_buffer.json"))


def figure(report: dict[str, Any]) -> Figure:
    """Return the figure of a report of `endmark_benchmarks.measurements.disk_buffer`."""
    options, buffers = report["options"], report["buffers"]
    sizes = [buffer["buffer_bytes"] / 1e6 for buffer in buffers]
    readings = range(options["repeats"])

    def panel(title: str, y: str, name: str, factor: float) -> Panel:
        runs = [[factor * buffer[name][reading] for buffer in buffers] for reading in readings]
        return Panel(
            title=title,
            x="disk buffer, MB",
            y=y,
            log_x=True,
            curves=[mean_curve("HYBRIDJOIN", [round(size, 3) for size in sizes], runs, digits=4)],
        )

    panels = [
        panel("I/O cost", "ms to read a page alone", "page_seconds", 1e3),
        panel("service rate", "thousand rows/s", "rates", 1e-3),
        panel("rows answered", "stream rows a page", "rows_per_read", 1.0),
    ]
    return Figure(
        name="hj-6",
        title="HYBRIDJOIN, figure 6: size of the disk buffer",
        setup=(
            f"R has {options['relation_rows']:,} rows, and {options['memory']} MB hold the disk buffer and "
            f"the rows that wait. The disk buffer is {AT_ONCE} pages of {buffers[0]['page_rows']} to "
            f"{buffers[-1]['page_rows']:,} rows. Exponent 1; {options['repeats']} readings, mean and 95 % "
            "interval. Times of the engine's lookup "
            "([disk_buffer.json](../../benchmarks/results/disk_buffer.json))."
        ),
        panels=panels,
        claims=claims(panels, [buffer["page_rows"] for buffer in buffers]),
    )


def claims(panels: Sequence[Panel], page_rows: Sequence[int]) -> list[Claim]:
    """Return the paper's claims and what the curves say of them.

    Args:
        panels: I/O cost, service rate and rows answered, by size of the disk buffer.
        page_rows: the rows of a page for each of these sizes.
    """
    cost, rate, answered = (panel.curves[0] for panel in panels)
    best = int(np.argmax(rate.y))
    inside = 0 < best < len(rate.y) - 1
    rises = all(before < after for before, after in pairwise(cost.y))
    a_row = [1e3 * milliseconds / rows for milliseconds, rows in zip(cost.y, page_rows, strict=True)]
    matched = [rows / of_page for rows, of_page in zip(answered.y, page_rows, strict=True)]
    dearer = a_row[-1] > 1.1 * a_row[best]
    return [
        Claim(
            claim="The service rate rises with the disk buffer up to a size, and then falls.",
            paper="an interior maximum, no figure",
            ours=(
                f"{rate.y[best]:,.0f} thousand rows/s at {rate.x[best]:.1f} MB, {rate.y[0]:,.0f} at "
                f"{rate.x[0]:.1f} MB, {rate.y[-1]:,.0f} at {rate.x[-1]:.1f} MB"
            ),
            verdict=verdict(holds=inside, in_shape=rate.y[0] < rate.y[best]),
            why="" if inside else "The rate is highest at the last size.",
        ),
        Claim(
            claim="The I/O cost rises with the disk buffer.",
            paper="no figure",
            ours=(
                f"a page takes {cost.y[0]:.2f} ms at {page_rows[0]} rows, {cost.y[-1]:.2f} at "
                f"{page_rows[-1]:,}"
            ),
            verdict=verdict(holds=rises, in_shape=cost.y[0] < cost.y[-1]),
            why="" if rises else "Neighbouring sizes differ by less than the readings do.",
        ),
        Claim(
            claim="The rate falls in the end since the I/O cost rises so fast.",
            paper="a plausible reason, by the paper",
            ours=(
                f"a row of R costs {a_row[best]:.2f} us at the best size and {a_row[-1]:.2f} us at the last; "
                f"it answers {matched[best]:.2f} and {matched[-1]:.2f} stream rows"
            ),
            verdict=verdict(holds=dearer, in_shape=False),
            why=""
            if dearer
            else (
                "The larger buffer leaves less memory to the rows that wait, so fewer of them meet a row "
                "of R."
            ),
        ),
    ]


MEASUREMENTS = [Measurement("hj-6", measure)]
