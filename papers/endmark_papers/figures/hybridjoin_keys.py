"""HYBRIDJOIN's figures 3 and 8: the parts of R that a stream with Zipf's law asks for.

Paper: HYBRIDJOIN (UoA-SE-2010-2), sections 3 and 5. R is sorted by popularity.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from endmark_feed.options import random_stream
from endmark_feed.zipf import zipf_keys, zipf_shares
from endmark_papers.algorithms.hybridjoin import HybridJoin
from endmark_papers.algorithms.meshjoin import MeshJoin
from endmark_papers.algorithms.relation import MasterRow, Page, PagedRelation, ReferenceLookup, StreamRow
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.figure import Claim, Curve, Figure, Measurement, Panel, verdict

SEGMENTS, SEGMENT_PAGES = 800, 20
PAGE_ROWS = 5
MEMORY_ROWS = 3_200  # as 50 MB for an R of 8 M rows: 4 % of R
LOOPS = 96_000
RANKS = 2_000_000
DRAWS = 2_000_000
SEEDS = range(1, 4)


class _Watched(PagedRelation):
    """R that counts how often each of its segments is read."""

    def __init__(self, segments: int) -> None:
        keys = range(1, segments * SEGMENT_PAGES * PAGE_ROWS + 1)
        super().__init__([MasterRow(key, key) for key in keys], PAGE_ROWS)
        self.reads = [0.0] * segments

    def read(self, page: int) -> Page:
        self.reads[page // SEGMENT_PAGES] += 1
        return super().read(page)


def measure_segments(scale: float) -> Figure:
    """Measure figure 3; at a smaller scale R has fewer segments."""
    segments = max(10, round(SEGMENTS * scale))
    position = list(range(1, segments + 1))
    shares = zipf_shares(1.0, segments * SEGMENT_PAGES * 500).reshape(segments, -1).sum(axis=1)
    memory, loops = (max(1, round(size * segments / SEGMENTS)) for size in (MEMORY_ROWS, LOOPS))
    hybrid = [
        _reads(relation := _Watched(segments), HybridJoin(relation, memory), loops, seed) for seed in SEEDS
    ]
    relation = _Watched(segments)
    loop_rows = max(1, memory // relation.pages)
    mesh = _reads(relation, MeshJoin(relation, loop_rows), 2 * relation.pages, seed=1)
    panel = Panel(
        title="20 pages a segment, the most popular first",
        x="segment of R",
        y="share, %",
        log_x=True,
        log_y=True,
        curves=[
            Curve(name="rows of the stream", x=position, y=[round(each, 6) for each in 100 * shares]),
            mean_curve("HYBRIDJOIN's page reads", position, hybrid, digits=4),
            mean_curve("MESHJOIN's page reads", position, [mesh], digits=4),
        ],
    )
    return Figure(
        name="hj-3",
        title="HYBRIDJOIN, figure 3: use of R by position",
        setup=(
            f"R has {segments} segments of {SEGMENT_PAGES} pages. The rows of the stream are Zipf's law with "
            f"exponent 1 and pages of 500 rows. Page reads are counted in the literal algorithms, with pages "
            f"of {PAGE_ROWS} rows and {memory:,} rows in memory; HYBRIDJOIN with {len(SEEDS)} seeds."
        ),
        panels=[panel],
        claims=segment_claims(panel),
    )


def segment_claims(panel: Panel) -> list[Claim]:
    """Return figure 3's claims and what the curves say of them."""
    rows, hybrid, mesh = (curve.y for curve in panel.curves)
    falls = all(after <= before for before, after in pairwise(rows))
    spread = max(mesh) / min(mesh)
    tenth = len(rows) // 10
    first, last = (sum(each) / tenth for each in (hybrid[:tenth], hybrid[-tenth:]))
    return [
        Claim(
            claim="The use of R's pages falls towards the end of R.",
            paper="no figure",
            ours=(
                f"the first segment has {rows[0]:.1f} % of the stream, the second {rows[1]:.2f} %, the last "
                f"{rows[-1]:.4f} %"
            ),
            verdict=verdict(holds=falls, in_shape=rows[0] > rows[-1]),
        ),
        Claim(
            claim="MESHJOIN reads all pages of R equally often.",
            paper="no figure",
            ours=(
                f"the segment read most often is read {spread:.2f} times as often as the one read least often"
            ),
            verdict=verdict(holds=spread < 1.01, in_shape=False),
        ),
        Claim(
            claim="HYBRIDJOIN reads the pages that are used less often more rarely.",
            paper="no figure",
            ours=(
                f"it reads a segment of the first tenth {first / last:.1f} times as often as one of the last"
            ),
            verdict=verdict(holds=first > 2 * last, in_shape=first > last),
        ),
    ]


def _reads(relation: _Watched, join: ReferenceLookup, loops: int, seed: int) -> list[float]:
    """Return each segment's percentage of the page reads in the later half of a run.

    Args:
        relation: R, which the join reads.
        join: the join, whose stream is never empty.
        loops: loops of the run.
        seed: equal seeds give equal streams.
    """
    random, offered = random_stream(seed, "use of segments"), 0
    for loop in range(loops):
        if loop == loops // 2:
            relation.reads = [0.0] * len(relation.reads)
        if offered - join.counters.inserts < 2 * MEMORY_ROWS:
            keys = zipf_keys(random, 10 * MEMORY_ROWS, 1.0, len(relation)).tolist()
            join.offer([StreamRow(key, offered + index) for index, key in enumerate(keys)])
            offered += len(keys)
        join.loop()
    return [100 * reads / sum(relation.reads) for reads in relation.reads]


def measure_tail(scale: float) -> Figure:
    """Measure figure 8; at a smaller scale R has fewer rows."""
    ranks, draws = round(RANKS * scale), round(DRAWS * scale)
    edges = np.unique(np.geomspace(1, ranks + 1, 60).astype(np.int64))
    fifths = np.linspace(0, ranks, 101).astype(np.int64)
    accesses, covered = [], []
    for seed in SEEDS:
        keys = zipf_keys(random_stream(seed, "long tail"), draws, 1.0, ranks)
        counts = np.bincount(keys, minlength=ranks + 1)
        sums = np.cumsum(counts)
        accesses.append(((sums[edges[1:] - 1] - sums[edges[:-1] - 1]) / np.diff(edges)).tolist())
        covered.append((100 * sums[fifths] / draws).tolist())
    panels = [
        Panel(
            title="the long tail",
            x="rank of a key of R",
            y="stream rows with the key",
            log_x=True,
            log_y=True,
            curves=[mean_curve("counted", edges[:-1].tolist(), accesses, digits=3)],
        ),
        Panel(
            title="the share of the popular keys",
            x="the most popular keys of R, %",
            y="stream rows with them, %",
            curves=[
                mean_curve("counted", list(range(101)), covered, digits=2),
                Curve(name="80/20", x=[0, 20, 100], y=[0, 80, 100]),
            ],
        ),
    ]
    return Figure(
        name="hj-8",
        title="HYBRIDJOIN, figure 8: accesses of R by rank",
        setup=(
            f"{draws:,} keys of {ranks:,} by Zipf's law with exponent 1, as `endmark feed-workload "
            f"zipf-{ranks}-1-1000` draws them; {len(SEEDS)} seeds."
        ),
        panels=panels,
        claims=tail_claims(panels, ranks),
    )


def tail_claims(panels: Sequence[Panel], ranks: int) -> list[Claim]:
    """Return figure 8's claims and what the curves say of them.

    Args:
        panels: accesses by rank, and the shares of the most popular keys.
        ranks: the number of R's keys.
    """
    accesses, covered = panels[0].curves[0].y, panels[1].curves[0].y
    fifth = covered[20]
    needed = next(percent for percent, share in enumerate(covered) if share >= 80)
    masses = zipf_shares(1.0, ranks)
    law = 100 * masses[: ranks // 5].sum()
    return [
        Claim(
            claim="Few keys are asked for often, and most of them rarely.",
            paper="no figure",
            ours=f"the first key has {accesses[0]:,.0f} rows, the last ones have {accesses[-1]:.2f} each",
            verdict=verdict(holds=accesses[0] > 1_000 * accesses[-1], in_shape=accesses[0] > accesses[-1]),
        ),
        Claim(
            claim="Exponent 1 gives the 80/20 rule: 80 % of the sales are of 20 % of the products.",
            paper="80 % for the top 20 %",
            ours=f"{fifth:.1f} % for the top 20 %; the top {needed} % of the keys have 80 %",
            verdict=verdict(holds=abs(fifth - 80) < 1, in_shape=fifth > 80),
            why=(
                f"By the law itself the top fifth of {ranks:,} keys has {law:.1f} %, since the share is "
                "ln(R / 5 + 1) / ln(R + 1). It is 80 % only for an R of about 3,000 keys."
            ),
        ),
    ]


MEASUREMENTS = [Measurement("hj-3", measure_segments), Measurement("hj-8", measure_tail)]
