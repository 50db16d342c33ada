"""The experiment on the rows that a page read of HYBRIDJOIN answers, by count and by model.

Paper: UoA-SE-2010-2, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from endmark.operators.lookup.page_model import aligned_yield
from endmark_feed.options import random_stream
from endmark_feed.zipf import zipf_keys, zipf_shares
from endmark_papers.algorithms.hybridjoin import HybridJoin
from endmark_papers.algorithms.relation import MasterRow, PagedRelation, StreamRow
from endmark_papers.experiments.report import Figures, Spread, Table
from endmark_papers.experiments.sliding_pages import sliding_yield

EXPONENTS = (0.0, 0.5, 1.0, 1.25)
SEEDS = range(1, 4)
READS = 20_000
PAPER_FACTOR = 1.36

Pages = Literal["aligned", "sliding"]
KINDS: tuple[Pages, ...] = ("aligned", "sliding")


class Setup(NamedTuple):
    """The sizes of an experiment, in rows.

    Args:
        master: rows of R.
        page: rows of a page.
        memory: pending rows.
    """

    master: int = 20_000
    page: int = 50
    memory: int = 3_000

    @property
    def mesh_yield(self) -> float:
        """Rows that MESHJOIN answers per page read with the same memory."""
        return self.memory * self.page / self.master


SETUP = Setup()


class PageFigures(Figures):
    """The rows answered per page read, for one kind of pages and one skew of the keys.

    Args:
        pages: the kind of pages.
        exponent: exponent of the keys' Zipf distribution.
        counted: rows counted, over all seeds.
        model: rows by our model.
        paper: rows by the paper's factor of 1.36.
        meshjoin: rows that MESHJOIN answers with the same memory.
    """

    pages: Pages
    exponent: float
    counted: Spread
    model: float
    paper: float
    meshjoin: float

    @property
    def error_percent(self) -> float:
        return 100 * (self.model / self.counted.mean - 1)


def measure(
    seeds: range = SEEDS,
    reads: int = READS,
    setup: Setup = SETUP,
    kinds: Sequence[Pages] = KINDS,
    exponents: Sequence[float] = EXPONENTS,
) -> list[PageFigures]:
    """Measure the rows that a page read answers, for kinds of pages and skews.

    Args:
        seeds: one run for each.
        reads: page reads of a run.
        setup: sizes of the relation, pages and memory.
        kinds: kinds of pages.
        exponents: exponents of the keys' Zipf distribution.
    """
    return [
        PageFigures(
            pages=pages,
            exponent=exponent,
            counted=Spread.of((_count(pages, exponent, seed, reads, setup) for seed in seeds), 2),
            model=round(_model(pages, zipf_shares(exponent, setup.master), setup), 2),
            paper=round(PAPER_FACTOR * setup.mesh_yield, 2),
            meshjoin=round(setup.mesh_yield, 2),
        )
        for pages in kinds
        for exponent in exponents
    ]


def tables(figures: list[PageFigures]) -> dict[str, Table]:
    headings = ["pages", "exponent", "counted", "model", "error, %", "paper's 1.36", "MESHJOIN"]
    rows = [
        [
            each.pages,
            f"{each.exponent:g}",
            each.counted.text(1),
            f"{each.model:.1f}",
            f"{each.error_percent:+.1f}",
            f"{each.paper:.1f}",
            f"{each.meshjoin:.1f}",
        ]
        for each in figures
    ]
    title = f"Rows answered per page read: mean over {len(SEEDS)} seeds (least to most)"
    return {"pages": Table(title, headings, rows)}


def _model(pages: Pages, shares: NDArray[np.float64], setup: Setup) -> float:
    if pages == "sliding":
        return sliding_yield(shares, setup.page, setup.memory).rows
    return aligned_yield(np.add.reduceat(shares, np.arange(0, setup.master, setup.page)), setup.memory).rows


def _count(pages: Pages, exponent: float, seed: int, reads: int, setup: Setup) -> float:
    """Return the rows answered per read in the later half of a run, in which the stream is never empty."""
    master = PagedRelation([MasterRow(key, key) for key in range(1, setup.master + 1)], setup.page)
    join = HybridJoin(master, setup.memory, "aligned" if pages == "aligned" else "paper")
    random = random_stream(seed, "page reads")
    offered = answered = 0
    for read in range(reads):
        if offered - join.counters.inserts < setup.memory:
            keys = zipf_keys(random, 10 * setup.memory, exponent, setup.master).tolist()
            join.offer([StreamRow(key, offered + index) for index, key in enumerate(keys)])
            offered += len(keys)
        rows = len(join.loop())
        answered += rows if read >= reads // 2 else 0
    return answered / (reads - reads // 2)
