"""HYBRIDJOIN against its definition and by hand, its theorems, and its queue."""

from __future__ import annotations

import copy
from collections import Counter
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from endmark.errors import ConfigError
from endmark_papers.algorithms.hybridjoin import ArrivalQueue, HybridJoin
from endmark_papers.algorithms.relation import Lookup, MasterRow, Match, Miss, Page, PagedRelation, StreamRow
from support.lookup_oracle import History, Loop, Offer, answers, histories

Pages = Literal["aligned", "paper"]
R = PagedRelation([MasterRow(key, key) for key in (0, 1, 2, 3, 6, 7)], 2)  # pages from 0, 2 and 6
kinds = st.sampled_from(["aligned", "paper"])


def rows(*keys: int) -> list[StreamRow]:
    return [StreamRow(key, at) for at, key in enumerate(keys)]


@given(history=histories, pages=kinds)
def test_every_row_is_answered(history: History, pages: Pages) -> None:
    """Whatever arrives when, every row gets all its matches or one miss, and every loop answers the oldest.
    At any time, rows and nodes held are those counted, in queue, hash and sorted keys alike."""
    join = HybridJoin(history.paged(), history.memory_rows, pages)
    offered: list[StreamRow] = []
    found: list[Lookup] = []
    for move in history.moves:
        before = list(join.pending())
        match move:
            case Offer(keys):
                new = [StreamRow(key, len(offered) + at) for at, key in enumerate(keys)]
                offered += new
                join.offer(new)
            case Loop():
                found += join.loop()
                assert not before or before[0] in {answer.stream for answer in found}
            case _:
                join = copy.deepcopy(join)
        _check_structures(join)
        answered = {answer.stream for answer in found}
        assert list(join.pending()) == [row for row in offered if row not in answered]
    found += join.finish()

    assert Counter(found) == Counter(answer for row in offered for answer in answers(history, row))
    assert (join.counters.results + join.counters.misses, join.counters.inserts) == (len(found), len(offered))
    assert (join.counters.state_rows, join._hash, join._keys) == (0, {}, [])


def _check_structures(join: HybridJoin) -> None:
    queued = list(join._queue)
    assert (join.counters.state_rows, join.counters.state_nodes) == (len(queued), len(queued))
    assert Counter(row.key for row in queued) == {key: len(found) for key, found in join._hash.items()}
    assert join._keys == sorted(join._hash)
    assert len(queued) <= join._memory_rows


def test_oldest_row_picks_the_page() -> None:
    """A loop answers all that the page speaks of, the keys between its rows too, and nothing else."""
    join = HybridJoin(R, memory_rows=5)
    pending = rows(7, 2, 5, 3, 2)
    join.offer(pending)

    assert join.loop() == [Match(pending[0], MasterRow(7, 7))]
    assert join.loop() == [
        Match(pending[1], MasterRow(2, 2)),
        Match(pending[4], MasterRow(2, 2)),
        Match(pending[3], MasterRow(3, 3)),
        Miss(pending[2]),
    ]
    assert (join.loop(), join.counters.page_reads) == ([], 2)


def test_paper_page_begins_at_the_oldest_key() -> None:
    """Rows with smaller keys on the same disk page are not reached."""
    join = HybridJoin(R, memory_rows=3, pages="paper")
    pending = rows(1, 0, 2)
    join.offer(pending)

    assert join.loop() == [Match(pending[0], MasterRow(1, 1)), Match(pending[2], MasterRow(2, 2))]
    assert join.loop() == [Match(pending[1], MasterRow(0, 0))]


def test_loop_takes_what_the_stream_has() -> None:
    """An intermittent stream is never waited for, and memory is never overrun."""
    join = HybridJoin(R, memory_rows=2)
    assert join.loop() == []
    join.offer(rows(0, 2, 6))

    assert join.loop() == [Match(StreamRow(0, 0), MasterRow(0, 0))]
    assert (join.counters.state_rows, len(list(join.pending()))) == (1, 2)
    assert join.loop() == [Match(StreamRow(2, 1), MasterRow(2, 2))]
    assert join.loop() == [Match(StreamRow(6, 2), MasterRow(6, 6))]
    assert join.counters.peak_rows == 2


class _Diary(PagedRelation):
    """Notes which pages are read."""

    def __init__(self, keys: list[int], page_rows: int) -> None:
        super().__init__([MasterRow(key, at) for at, key in enumerate(keys)], page_rows)
        self.reads: list[int] = []

    def read(self, page: int) -> Page:
        self.reads.append(page)
        return super().read(page)


@given(
    keys=st.lists(st.integers(-1, 9), max_size=60),
    relation=st.lists(st.integers(0, 8), max_size=12),
    page_rows=st.integers(1, 4),
    memory_rows=st.integers(1, 8),
)
def test_theorem_1(keys: list[int], relation: list[int], page_rows: int, memory_rows: int) -> None:
    """With memory full, the rows that read one aligned page twice are at least H_t apart in the stream."""
    diary = _Diary(relation, page_rows)
    join = HybridJoin(diary, memory_rows)
    join.offer(rows(*keys))
    readers: dict[int, list[int]] = {}
    while pending := list(join.pending()):
        full = len(pending) >= memory_rows
        join.loop()
        if full:
            readers.setdefault(diary.reads[-1], []).append(pending[0].serial)

    for serials in readers.values():
        assert all(later - earlier >= memory_rows for earlier, later in pairwise(serials))


@given(keys=st.lists(st.integers(-1, 9)), memory_rows=st.integers(1, 8), pages=kinds)
def test_theorem_2(keys: list[int], memory_rows: int, pages: Pages) -> None:
    """There are no more reads than rows."""
    join = HybridJoin(R, memory_rows, pages)
    join.offer(rows(*keys))
    join.finish()

    assert join.counters.page_reads <= len(keys)


def test_checkpoint_of_a_long_queue() -> None:
    """Copying does not recurse along the links, and the copy goes its own way."""
    join = HybridJoin(R, memory_rows=20_000)
    join.offer([StreamRow(at % 8, at) for at in range(20_000)])
    join.loop()
    saved = copy.deepcopy(join)

    assert Counter(join.finish()) == Counter(saved.finish())


def test_wrong_options_are_refused() -> None:
    """Memory for nothing would never end; pages are of two kinds."""
    with pytest.raises(ConfigError, match="memory_rows=0"):
        HybridJoin(R, 0)
    with pytest.raises(ConfigError, match='not "sliding"'):
        HybridJoin(R, 1, "sliding")  # type: ignore[arg-type]


class QueueMachine(RuleBasedStateMachine):
    """The linked list against an ordered dict of its nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = ArrivalQueue()
        self.model: dict[int, StreamRow] = {}
        self.most = 0

    @rule(key=st.integers(0, 3))
    def append(self, key: int) -> None:
        row = StreamRow(key, len(self.model))
        node = self.queue.append(row)
        assert node not in self.model
        self.model[node] = row
        self.most = max(self.most, len(self.model))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(list(self.model)))
        self.queue.remove(node)
        del self.model[node]
        with pytest.raises(LookupError):
            self.queue.row(node)

    @invariant()
    def agrees(self) -> None:
        assert list(self.queue) == list(self.model.values())
        assert len(self.queue) == len(self.model)
        assert self.queue.front == next(iter(self.model.values())) if self.model else not self.queue
        assert len(self.queue._rows) == self.most + 1, "removed nodes are not used again"


TestQueue = QueueMachine.TestCase
