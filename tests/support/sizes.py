"""How random worlds are cut up: partitions of their streams, buckets of their state, segments that merge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from hypothesis import strategies as st

from endmark.state import segment_list

PARTITIONS = st.integers(1, 4)
BUCKETS = st.integers(1, 5)


@dataclass(frozen=True)
class Merging:
    """So many neighbouring segments merge, into one of at most so many rows; fewer do if they are small."""

    fanout: int
    rows: int

    @contextmanager
    def limits(self) -> Iterator[None]:
        """The engine merges by these limits."""
        with (
            patch.object(segment_list, "FANOUT", self.fanout),
            patch.object(segment_list, "MERGED_ROWS", self.rows),
            patch.object(segment_list, "FANOUT_OF_SMALL", min(self.fanout, segment_list.FANOUT_OF_SMALL)),
            patch.object(segment_list, "SMALL_ROWS", min(8, self.rows // 3)),
        ):
            yield


# Worlds have a dozen rows of a bucket, so the limits are as small: some are reached exactly, some never.
MERGING = st.builds(Merging, st.sampled_from([3, 2, 4, 8]), st.sampled_from([1 << 19, 2, 4, 8, 16]))


@dataclass(frozen=True)
class Sizes:
    """How a pipeline's world is cut up; `partitions` are counted by topic."""

    partitions: Mapping[str, int]
    buckets: int
    merging: Merging


SIZES = st.builds(
    Sizes, st.fixed_dictionaries({"all.items": PARTITIONS, "all.bids": PARTITIONS}), BUCKETS, MERGING
)


@st.composite
def speakers(draw: st.DrawFn, count: int) -> list[int]:
    """The partitions, of so many, that say the same: mostly all, in any order; else all but one, or one."""
    chosen: list[int] = draw(st.permutations(range(count)))
    return chosen[: draw(st.sampled_from([count, count, count - 1, 1])) or 1]
