"""Closed keys: the keys that a side's punctuations name one by one.

If a key lives in one partition, the first punctuation that names it closes it. Otherwise a key is closed once
every partition has promised it, by its name or by a pattern. A union closes a key once each of its members
has closed it in one of these ways.

Of the last thousand records of a partition, it is known which of them closed which key. Keys that were closed
before are only known to be closed, and by what: a row or a punctuation. So they fit in ranges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.closed_ranges import ClosedRanges
from endmark.operators.stream_join.key_sets import UNKNOWN
from endmark.state import codec
from endmark.state.keys import Keys
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList, kill

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.operators.stream_join.key_promises import KeyPromises
    from endmark.operators.stream_join.members import Member
    from endmark.state.keys import KeySpec, Share
    from endmark.state.search import Bools, Ints
    from endmark.state.store import SegmentStore

# An offset after any other.
LATER = 1 << 62
# A violation tells the offset of the promise that named its key if that is at most so much less than its own.
RECENT = 1_000


def known_offsets(since: Ints, offsets: Ints) -> Ints:
    """Return the offsets of promises that name the keys of violations; `UNKNOWN` if they are not recent.

    Args:
        since: the offset of the promise for each row, as `Naming` has it.
        offsets: the offsets of the rows.
    """
    return np.where(offsets - since <= RECENT, since, UNKNOWN)


class Naming(NamedTuple):
    """The promises that name the keys of some rows, and rule these rows out.

    Args:
        since: for each row, the offset of the first promise before it in its own partition: `LATER` without
            one, and `UNKNOWN` if it is not recent.
        elsewhere: a mask of the other rows whose key another partition had closed before the batch.
        by_row: a mask of the rows whose promise a row made.
    """

    since: Ints
    elsewhere: Bools
    by_row: Bools

    @property
    def rules_out(self) -> Bools:
        """A mask of the rows that a promise rules out."""
        ruled_out: Bools = (self.since != LATER) | self.elsewhere
        return ruled_out


class ClosedKeys:
    """The keys that punctuations of one side name. Keys that patterns close are not among them.

    Entries have key, partition and offset. The offset is that of the first promise in the partition that
    names the key.

    Attributes:
        recent: the entries of closed keys whose promise is recent in its partition. If closed keys cannot be
            ranges, it has the entries of all of them, each with the `time` at which it was stored.
        ranges: all other closed keys, without partition and offset.
        promised: the entries of keys that are not closed, since some partitions have not promised them yet.

    Args:
        store: keeps the entries.
        key: the key by the names that both sides share.
        key_promises: the key promises of the same side.
        members: the streams of the side, each of which must have closed a key before it is closed.
        buckets: the number of buckets that share the keys.
        by_rows: whether rows close keys, too. Entries then have the column `by_row`: 1 if a row closed the
            key, else 0.
        in_kafka: whether promises are records of Kafka. If not, none is recent.
    """

    def __init__(
        self,
        store: SegmentStore,
        key: KeySpec,
        key_promises: KeyPromises,
        members: Sequence[Member],
        *,
        buckets: int = 1,
        by_rows: bool = False,
        in_kafka: bool = True,
    ) -> None:
        self._key = key
        self._key_promises = key_promises
        self._members = members
        self._by_rows = by_rows
        self._in_kafka = in_kafka
        # A key may be closed by a row in one partition and by a punctuation in another one, unless it lives
        # in one.
        self._in_ranges = not by_rows or [member.keyed for member in members] == [True]
        self.recent = SegmentList(store, key, None if self._in_ranges else "time")
        self.ranges = ClosedRanges(store, key, buckets, by_rows=by_rows)
        self.promised = SegmentList(store, key)
        self._newly_closed: pa.RecordBatch | None = None
        self._time = 0

    def lists(self) -> dict[str, SegmentList]:
        """Return the lists of segments, by name in a manifest."""
        return {
            "closed_keys": self.recent,
            "closed_ranges": self.ranges.ranges,
            "promised_keys": self.promised,
        }

    @property
    def rows(self) -> int:
        """The number of closed keys that are kept; a range counts once."""
        return self.recent.rows + self.ranges.ranges.rows

    def keep(self, share: Share) -> None:
        """Drop the keys that belong to other buckets."""
        self.recent.keep(share)
        self.promised.keep(share)
        self.ranges.keep(share)

    def contain(self, keys: Keys) -> Bools:
        """Return a mask of the keys of this bucket that are closed by name."""
        closed: Bools = self.recent.contains(keys) | self.ranges.find(keys)[0]
        return closed

    def candidates(self, closed_keys: pa.RecordBatch | None, *, widened: bool) -> pa.RecordBatch | None:
        """Return the keys that `take` may close, in the order of their codes; `None` without any.

        Args:
            closed_keys: keys that punctuations name; `None` without any.
            widened: whether patterns came.
        """
        batches = [segment.live_batch() for segment in self.promised.segments if widened]
        batches += [] if closed_keys is None else [closed_keys]
        if not any(batch.num_rows for batch in batches):
            return None
        return self._key.distinct(codec.concat([batch.select(self._key.stored) for batch in batches]))

    def take(
        self, closed_keys: pa.RecordBatch | None, *, widened: bool, time: int = 0
    ) -> pa.RecordBatch | None:
        """Remember the keys that a batch names; return the newly closed ones in the order of their codes.

        The newly closed keys count as closed after `close`. A key is newly closed only in the batch that
        completes it.

        Args:
            closed_keys: keys that punctuations name, with `partition` and `offset`; `None` without any.
            widened: whether patterns came. They may complete keys that were named before.
            time: the newest event time (µs) of the stream, by which `expire` forgets keys.
        """
        self._time = time
        entries = None if closed_keys is None else self._unknown(self._firsts(closed_keys))
        keys = self.candidates(entries, widened=widened)
        if keys is None:
            return None
        found = self._key.keys(keys)
        known = self.contain(found) | self._key_promises.contain(found)
        complete = self._complete(found, entries)
        newly_closed = keys.filter(pa.array(complete & ~known))
        self._keep(entries, keys.filter(pa.array(known)), newly_closed)
        return newly_closed if newly_closed.num_rows else None

    def close(self) -> None:
        """Store the keys that `take` has returned as closed."""
        if self._newly_closed is None:
            return
        entries, self._newly_closed = self._newly_closed, None
        if not self._in_ranges:
            self._append(entries)
            return
        newest = self._newest_offsets(entries)
        old = self._is_old(entries, newest)
        found = self.recent.where(lambda segment: np.flatnonzero(self._is_old(segment.batch, newest)))
        # A few old entries stay, or each small batch would write two segments.
        if np.count_nonzero(old) + sum(map(len, found)) < RECENT and self._in_kafka:
            self.recent.append(entries)
            return
        self.recent.append(entries.filter(pa.array(~old)))
        gone = [entries.filter(pa.array(old))]
        for rows in kill(found):
            # The promise of another partition may have taken the key there before.
            known, _ = self.ranges.find(self._key.keys(rows.batch))
            gone.append(rows.batch.filter(pa.array(~known)))
        self.ranges.add(self._key.sorted(codec.concat(gone)), self._time)

    def _append(self, entries: pa.RecordBatch) -> None:
        """Append entries to `recent`, with the time of the batch if they never become ranges."""
        if not self._in_ranges:
            entries = entries.append_column("time", pa.array(np.full(entries.num_rows, self._time)))
        self.recent.append(entries)

    def _newest_offsets(self, entries: pa.RecordBatch) -> Ints:
        """Return the newest offset of each partition, among given entries and recent ones."""
        batches = [entries, *(segment.batch for segment in self.recent.segments)]
        partitions = np.concatenate([int64(batch.column("partition")) for batch in batches])
        newest = np.zeros(int(partitions.max()) + 1, np.int64)
        np.maximum.at(newest, partitions, np.concatenate([int64(b.column("offset")) for b in batches]))
        return newest

    def _is_old(self, entries: pa.RecordBatch, newest: Ints) -> Bools:
        """Return a mask of the entries that are not recent, given the newest offset of each partition."""
        if not self._in_kafka:
            return np.ones(entries.num_rows, bool)
        old: Bools = int64(entries.column("offset")) < newest[int64(entries.column("partition"))] - RECENT
        return old

    def maintain(self) -> None:
        for entries in self.lists().values():
            entries.maintain()

    def expire(self, before: int) -> None:
        """Forget the keys that were closed before a time (µs), unless a range takes them later."""
        self.ranges.ranges.expire(before)
        if not self._in_ranges:
            self.recent.expire(before)

    def forget(self) -> None:
        """Drop the keys that patterns close."""
        for entries in (self.recent, self.promised):
            entries.remove_where(self._key_promises.positions)
        self.ranges.remove(self._key_promises)

    def naming(
        self, keys: Keys, partitions: Ints, offsets: Ints, closed_keys: pa.RecordBatch | None
    ) -> Naming:
        """Find the promises that name the keys of rows.

        A promise of another partition counts only if it is of an earlier batch, since Kafka has no order of
        records of several partitions. The partition of a promise that is not recent is not known, so it
        counts as the row's own.

        Args:
            keys: the keys of the rows.
            partitions, offsets: the coordinates of the rows.
            closed_keys: keys that punctuations of the present batch name, in addition to remembered ones;
                `None` without any.
        """
        # Codes of `_codes`: `code >> 1` is the offset of a promise, and the last bit is 0 if a row made it.
        first, others = np.full(len(keys), LATER), np.full(len(keys), LATER)
        for entries, i, j in self._find(keys, None, self.recent):
            _take_first(first, others, partitions, entries, i, j)
        promised = np.full(len(keys), LATER)  # not closed, so it rules out rows of its own partition alone
        for entries, i, j in self._find(keys, None, self.promised):
            _take_first(first, promised, partitions, entries, i, j)
        closed, by_row = self.ranges.find(keys)
        closed &= first == LATER
        first[closed] = 2 * UNKNOWN + 1 - by_row[closed]
        for entries, i, j in self._find(keys, closed_keys):
            _take_first(first, promised, partitions, entries, i, j)
        before = (first != LATER) & (first >> 1 < offsets)
        elsewhere = ~before & (others != LATER)
        made_by_row = np.where(elsewhere, others, first) & 1 == 0
        return Naming(np.where(before, first >> 1, LATER), elsewhere, made_by_row & (before | elsewhere))

    def promises_of(self, keys: Keys) -> Iterator[tuple[int, int, int]]:
        """Yield the promises that name some keys: the position of the key, partition and offset.

        Keys that were closed before the last thousand records of a partition have none.
        """
        for entries, i, j in self._find(keys, None, self.recent, self.promised):
            coordinates = [int64(entries.column(name))[j].tolist() for name in ("partition", "offset")]
            yield from zip(i.tolist(), *coordinates, strict=True)

    def _find(
        self, keys: Keys, more: pa.RecordBatch | None, *lists: SegmentList
    ) -> Iterator[tuple[pa.RecordBatch, Ints, Ints]]:
        """Yield entries of some keys with positions (key, entry).

        Args:
            keys: the keys.
            more: further entries; `None` without any.
            lists: the lists of entries to search.
        """
        for entries in lists:
            for segment, i, j in entries.find(keys):
                if len(i):
                    yield segment.batch, i, j
        if more is not None:
            batch = self._key.sorted(more)
            for i, j in keys.pairs(self._key.keys(batch)):
                yield batch, i, j

    def _complete(self, keys: Keys, entries: pa.RecordBatch | None) -> Bools:
        """Return a mask of the keys that all members have closed, by name or by a pattern."""
        found = [
            (i, int64(batch.column("partition"))[j])
            for batch, i, j in self._find(keys, entries, self.promised)
        ]
        complete = np.ones(len(keys), bool)
        for member in self._members:
            named, promised = np.zeros(len(keys), bool), self._key_promises.count(keys, member.numbers)
            for i, partitions in found:
                own = member.has(partitions)
                at = i[own]
                named[at] = True
                by_name = Keys(keys.codes[at], tuple(column.take(pa.array(at)) for column in keys.columns))
                np.add.at(promised, at, ~self._key_promises.promised_by(by_name, partitions[own]))
            complete &= (named & member.keyed) | (promised >= member.partitions)
        return complete

    def _keep(
        self, entries: pa.RecordBatch | None, known: pa.RecordBatch, newly_closed: pa.RecordBatch
    ) -> None:
        """Store entries in `recent` or `promised`; those of newly closed keys wait for `close`.

        Args:
            entries: the entries of the present batch; `None` without any.
            known: the keys that were closed before.
            newly_closed: the keys that the batch closes.
        """
        new = self._key.keys(newly_closed)
        waiting = [gone.batch for gone in self.promised.remove(new) if len(gone)]
        if entries is not None:
            keys = self._key.keys(entries)
            closed, now = keys.among(self._key.keys(known)), keys.among(new)
            self._append(entries.filter(pa.array(closed)))
            self.promised.append(entries.filter(pa.array(~closed & ~now)))
            waiting.append(entries.filter(pa.array(now)))
        if newly_closed.num_rows:
            self._newly_closed = self._key.sorted(codec.concat(waiting))

    def _firsts(self, closed_keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return an entry for the first promise of each key in each partition."""
        columns = [*self._key.stored, "partition"]
        codes = _codes(closed_keys, np.arange(closed_keys.num_rows))
        coded = closed_keys.select(columns).append_column("code", pa.array(codes))
        firsts = pa.Table.from_batches([coded]).group_by(columns, use_threads=False)
        found = codec.concat(firsts.aggregate([("code", "min")]).to_batches())
        first, entries = int64(found.column("code_min")), found.select(columns)
        entries = entries.append_column("offset", pa.array(first >> 1))
        if self._by_rows:
            entries = entries.append_column("by_row", pa.array(1 - first % 2))
        return self._key.sorted(entries)

    def _unknown(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return the entries of keys that their partition has not promised before."""
        keys = self._key.keys(entries)
        known = self._key_promises.contain(keys)
        partitions = int64(entries.column("partition"))
        unknown = self.naming(keys, partitions, np.full(len(keys), LATER), None).since == LATER
        return entries.filter(pa.array(~known & unknown))


def _take_first(own: Ints, others: Ints, partitions: Ints, entries: pa.RecordBatch, i: Ints, j: Ints) -> None:
    """Let entries lower the codes of rows.

    Args:
        own, others: the codes of each row's first promise so far, in its own partition and in other ones.
        partitions: the partitions of the rows.
        entries: some entries.
        i, j: positions (row, entry) of equal keys.
    """
    codes, is_own = _codes(entries, j), int64(entries.column("partition"))[j] == partitions[i]
    np.minimum.at(own, i[is_own], codes[is_own])
    np.minimum.at(others, i[~is_own], codes[~is_own])


def _codes(entries: pa.RecordBatch, at: Ints) -> Ints:
    """Return one number for each entry at some positions, made of its offset and of whether a row made it.

    At the same offset, the promise of the row itself sorts before the promise of a closing rule.
    """
    by_row = int64(entries.column("by_row"))[at] if "by_row" in entries.schema.names else 0
    return 2 * int64(entries.column("offset"))[at] + 1 - by_row
