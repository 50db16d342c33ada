"""First rows: a stream that is deduplicated lets the first row of each value through, and drops the others.

Rows are in the order of offsets in their partition, and those of different partitions are never duplicates of
each other. So it does not matter how the stream is cut into batches and buckets. The first row of a value
passes. A later one passes if it is more than `within` newer than the last one that passed; then it is the
first row that later ones are compared with. A row that breaks a promise is set aside before and has no
effect.

State has the last row of each value that passed, without its other columns. It is freed once progress is more
than `within` beyond it: a row that could still be its duplicate is late then, or comes from an idle partition
that progress has overtaken. It is also freed when the stream closes its key, since later rows of the key
break that promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.event_times import FOR_EVER, NEVER
from endmark.state.keys import KeySpec, numbered
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList, SegmentRows, kill

if TYPE_CHECKING:
    from endmark.operators.stream_join.key_promises import KeyPromises
    from endmark.state.keys import Keys, Share
    from endmark.state.search import Bools, Ints
    from endmark.state.segment import Segment
    from endmark.state.store import SegmentStore

_PARTITION, _OFFSET, _TIME = "partition", "offset", "time"


@dataclass(frozen=True)
class Deduplication:
    """The specification of a stream's deduplication.

    Args:
        step: the name of its step.
        others: the columns of the value beside those of the key. A null counts as a value of its own.
        within: microseconds of event time after a first row in which later ones are its duplicates; `None`:
            all later ones are.
    """

    step: str
    others: tuple[str, ...] = ()
    within: int | None = None


class FirstRows:
    """The last row of each value that passed, in one bucket.

    Attributes:
        own_columns: the columns of the stream that `admit` needs.
        passed: these rows: the key by the names that all sides share, the other columns of the value,
            `partition` and `time`.

    Args:
        spec: the deduplication.
        key: the stream's key, by its own names.
        coordinates: the stream's columns of partition, offset and event time.
        store: keeps the rows.
    """

    def __init__(
        self, spec: Deduplication, key: KeySpec, coordinates: tuple[str, str, str], store: SegmentStore
    ) -> None:
        self._named = [*key.columns, *spec.others, *coordinates]
        self.own_columns = list(dict.fromkeys(self._named))  # the event time may be of the value
        self._key = key.shared
        columns = (*self._key.columns, *spec.others)
        self._value = KeySpec(columns, hashed=True) if spec.others else self._key
        self._within = spec.within
        self.passed = SegmentList(store, self._value, _TIME)

    def admit(self, rows: pa.RecordBatch) -> Bools:
        """Return a mask of the rows that pass, and remember those that pass last.

        Args:
            rows: at least one row of a batch, none of which breaks a promise, with the columns of
                `own_columns`. They may have any order. All rows that a lookup has made of one record pass, or
                none does.
        """
        names = [*self._value.columns, _PARTITION, _OFFSET, _TIME]
        rows = pa.record_batch([rows.column(name) for name in self._named], names=names)
        groups = numbered([rows.column(name) for name in (*self._value.columns, _PARTITION)])
        offsets = int64(rows.column(_OFFSET))
        order = np.lexsort((offsets, groups))
        groups, offsets = groups[order], offsets[order]
        begins = np.append(True, groups[1:] != groups[:-1])
        is_record = begins | np.append(True, offsets[1:] != offsets[:-1])
        firsts = rows.take(pa.array(order[begins]))  # one row of each group
        values = self._value.coded(firsts.select(self._value.columns))
        partitions = int64(firsts.column(_PARTITION))
        known = self._known(values, partitions)
        last = np.full(len(partitions), NEVER)
        for segment, group, position in known:
            last[group] = segment.times[position]
        records, times = groups[is_record], int64(rows.column(_TIME))[order][is_record]
        within = FOR_EVER if self._within is None else self._within
        passing = _passing(records, times, last, within)
        newer = np.zeros(len(last), bool)
        newer[records[passing]] = True
        last[records[passing]] = times[passing]  # of several rows of a value, the last one counts
        for segment, group, position in known:
            kill([SegmentRows(segment, position[newer[group]])])
        new = pa.record_batch(
            [*values.columns, pa.array(partitions), pa.array(last)],
            names=[*values.schema.names, _PARTITION, _TIME],
        )
        self.passed.append(self._value.sorted(new.filter(pa.array(newer))))
        found = np.empty(len(order), bool)
        found[order] = passing[np.cumsum(is_record) - 1]
        return found

    def close(self, closed_keys: pa.RecordBatch | None, key_promises: KeyPromises | None) -> None:
        """Free the values of keys that the stream has closed.

        Args:
            closed_keys: newly closed keys, in order of code; `None` without any.
            key_promises: all key promises of the stream; `None` if none is new.
        """
        if closed_keys is not None:
            keys = self._key.keys(closed_keys)
            self.passed.remove_where(lambda segment: np.flatnonzero(self._keys(segment).among(keys)))
        if key_promises is not None:
            self.passed.remove_where(
                lambda segment: np.flatnonzero(key_promises.contain(self._keys(segment)))
            )

    def keep(self, share: Share) -> None:
        """Free the values whose keys belong to other buckets."""
        self.passed.remove_where(lambda segment: np.flatnonzero(~share.has(self._keys(segment).codes)))

    def expire(self, progress: int) -> None:
        """Free the values of which no later row can be a duplicate; `progress` is the stream's own (µs)."""
        if self._within is not None:
            self.passed.expire(progress - self._within)

    def _keys(self, segment: Segment) -> Keys:
        """Return the stream's keys of the rows of a segment."""
        if self._value == self._key:
            return segment.keys
        return self._key.keys(self._key.coded(segment.batch.select(self._key.columns)))

    def _known(self, values: pa.RecordBatch, partitions: Ints) -> list[tuple[Segment, Ints, Ints]]:
        """Return the rows in state of some values and partitions: segments, with positions (value, row)."""
        found = []
        for segment, i, j in self.passed.find(self._value.keys(values)):
            own = int64(segment.batch.column(_PARTITION))[j] == partitions[i]
            found.append((segment, i[own], j[own]))
        return found


def _passing(groups: Ints, times: Ints, last: Ints, within: int) -> Bools:
    """Return a mask of the records that pass.

    The next record that passes is the first one whose time is beyond a bound. So it is also the first one at
    which the newest time so far is beyond that bound, and a search finds it. Only then its own bound is
    known. But the record that would follow each record is known at once, and twice as many steps are taken in
    each round.

    Args:
        groups: the group of each record, ascending. The records of a group are in order of offset.
        times: their times.
        last: the time of each group's last record that has passed before, or `NEVER`.
        within: the microseconds in which others are duplicates of a record that passed.
    """
    count = len(groups)
    bounds = np.where(last == NEVER, NEVER, last + within)
    _, ranks = np.unique(np.concatenate([times, times + within, bounds]), return_inverse=True)
    width = int(ranks.max()) + 1
    newest = np.maximum.accumulate(groups * width + ranks[:count])
    ended = np.append(groups, -1)

    def behind(of: Ints, bound: Ints) -> Ints:
        found = np.searchsorted(newest, of * width + bound, "right")
        return np.where(ended[found] == of, found, count)

    jump = np.append(behind(groups, ranks[count : 2 * count]), count)
    passes = np.zeros(count + 1, bool)
    passes[behind(np.arange(len(last)), ranks[2 * count :])] = True
    passes[count] = True
    while not passes[further := jump[passes]].all():
        passes[further] = True
        jump = jump[jump]
    return passes[:count]
