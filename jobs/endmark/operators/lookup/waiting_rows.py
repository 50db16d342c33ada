"""Rows that wait for an answer of R, grouped by page and by key, in order of age.

They lie in several batches, and are copied together only as far as they are asked for.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from endmark.state import codec
from endmark.state.segment import int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.relation.contract import PageDirectory
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints

SERIAL = "$serial"  # int64: the order in which rows arrived


class Piece(NamedTuple):
    """Rows of one batch.

    Args:
        batch: the batch.
        positions: the positions of the rows; `None` is all rows.
    """

    batch: pa.RecordBatch
    positions: Ints | None = None

    def __len__(self) -> int:
        return int(self.batch.num_rows) if self.positions is None else len(self.positions)

    def select(self, names: list[str]) -> pa.RecordBatch:
        chosen = self.batch.select(names)
        return chosen if self.positions is None else chosen.take(pa.array(self.positions))

    def take(self, at: Ints) -> pa.RecordBatch:
        return self.batch.take(pa.array(at if self.positions is None else self.positions[at]))


class Pieces:
    """Rows in the order of their pieces, of which there is at least one.

    A batch may answer a tenth of 250 MB that wait for a lookup. To copy all of them together took a third of
    its time. `Table.take` of pyarrow 26 takes 22 to 27 ms for each read of 240 MB; `take` here takes 15 ms.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        lengths = np.array([len(piece) for piece in pieces])
        self._starts = np.cumsum(lengths) - lengths
        self._bytes = sum(
            int(piece.batch.nbytes) * len(piece) / max(1, int(piece.batch.num_rows)) for piece in pieces
        )
        self.num_rows = int(lengths.sum())

    @property
    def last_start(self) -> int:
        """The position of the last piece's first row."""
        return int(self._starts[-1])

    @property
    def row_bytes(self) -> float:
        """The average bytes of a row in memory."""
        return self._bytes / max(1, self.num_rows)

    def select(self, names: list[str]) -> pa.RecordBatch:
        """Return some columns of all rows."""
        return codec.concat([piece.select(names) for piece in self._pieces])

    def take(self, at: Ints) -> pa.RecordBatch:
        """Return the rows at some positions."""
        if len(self._pieces) == 1 or not len(at):
            return self._pieces[0].take(at)
        piece_of = np.searchsorted(self._starts, at, "right") - 1
        by_piece = np.argsort(piece_of.astype(np.uint16), kind="stable")  # of short numbers: by their digits
        counts = np.bincount(piece_of, minlength=len(self._pieces))
        of_each = np.split(by_piece, np.cumsum(counts)[:-1])
        asked = zip(self._pieces, self._starts, of_each, strict=True)
        taken = [piece.take(at[those] - start) for piece, start, those in asked if len(those)]
        order = np.empty(len(at), np.int64)
        order[by_piece] = np.arange(len(at))
        return codec.concat(taken).take(pa.array(order))


class _Order:
    """A fixed order of groups, from whose front groups with waiting rows are taken."""

    def __init__(self, groups: Ints) -> None:
        self._groups = groups
        self._head = 0

    def front(self, waiting: Ints, limit: int) -> Ints:
        """Return up to `limit` groups with waiting rows. A group that was answered never waits again."""
        found: list[Ints] = []
        missing, at = limit, self._head
        while missing > 0 and at < len(self._groups):
            window = self._groups[at : at + limit]
            found.append(window[waiting[window] > 0][:missing])
            missing -= len(found[-1])
            at += limit
            if missing == limit:  # none before the first group that waits is looked at again
                self._head = at
        return np.concatenate(found) if found else np.empty(0, np.int64)


class Groups:
    """Runs of neighbouring rows that are answered together, in order of age.

    Args:
        starts: the position at which each run begins.
        serials: the serial numbers of all rows.
        unanswered: a mask of the rows that still wait.
    """

    def __init__(self, starts: Ints, serials: Ints, unanswered: Bools) -> None:
        self.starts = starts
        self.ends = np.append(starts[1:], len(serials))
        self.oldest = np.minimum.reduceat(serials, starts) if len(starts) else serials
        waiting = np.add.reduceat(unanswered, starts, dtype=np.int64) if len(starts) else starts
        self.waiting: Ints = waiting
        """Rows of each group that still wait."""

    def answered(self, rows: Ints) -> None:
        groups = np.searchsorted(self.starts, rows, "right") - 1
        self.waiting -= np.bincount(groups, minlength=len(self.starts))

    def first(self, limit: int) -> Ints:
        """Up to `limit` groups with waiting rows, those first whose first row is oldest."""
        return self._by_age.front(self.waiting, limit)

    @cached_property
    def _by_age(self) -> _Order:
        return _Order(np.argsort(self.oldest))

    def rows(self, groups: Ints) -> Ints:
        """Return the positions of all rows of some groups, group by group."""
        counts = self.ends[groups] - self.starts[groups]
        before = np.cumsum(counts) - counts
        rows: Ints = np.arange(counts.sum()) + np.repeat(self.starts[groups] - before, counts)
        return rows


class KeyGroups(Groups):
    """Runs of rows of one key. They are answered together: all rows of a group wait, or none does."""

    def fullest(self, limit: int) -> Ints:
        """Return up to `limit` groups; those with most waiting rows come first."""
        return self._by_number.front(self.waiting, limit)

    @cached_property
    def _by_number(self) -> _Order:
        # Of short numbers, NumPy's stable sort is one by their digits, a tenth of the time.
        few = np.iinfo(np.uint16).max - np.minimum(self.waiting, np.iinfo(np.uint16).max)
        return _Order(np.argsort(few.astype(np.uint16), kind="stable"))


class Waiting:
    """The waiting rows of one batch, ordered by page and within a page by the code of their key.

    Args:
        pieces: stream rows with their code and `SERIAL`, in any order; at least one piece.
        key: their key.
        directory: R's pages.
    """

    def __init__(self, pieces: Sequence[Piece], key: KeySpec, directory: PageDirectory) -> None:
        self._pieces = Pieces(pieces)
        self._key = key
        rows = self._pieces.select([*key.stored, SERIAL])
        self._keys = rows.select(key.stored)
        self._by_code = self._order = key.order(rows)
        if key.hashed:
            pages = directory.page_of(rows.select(list(key.columns)).take(pa.array(self._by_code)))
            by_page = np.argsort(pages, kind="stable")
            self._order = self._by_code[by_page]
            starts = _run_starts(pages[by_page])
            self.page_numbers = pages[by_page][starts]
            self._codes = key.keys(rows).codes[self._order]
        else:
            self._codes = key.keys(rows).codes[self._order]
            # Pages ascend as their keys do: few bounds among many keys are found in a tenth of the time.
            ends = directory.ends(self._codes)
            starts = np.append(0, ends[:-1])
            self.page_numbers = np.flatnonzero(ends > starts)
            starts = starts[self.page_numbers]
        self._serials = int64(rows.column(SERIAL))[self._order]
        self.unanswered = np.ones(len(self._order), bool)
        self._left = len(self._order)
        self.pages = Groups(starts, self._serials, self.unanswered)

    def __len__(self) -> int:
        """Return the number of rows that still wait."""
        return self._left

    @cached_property
    def keys(self) -> KeyGroups:
        """The groups of rows of one page and equal code."""
        return KeyGroups(self._key_starts, self._serials, self.unanswered)

    @cached_property
    def keys_on_page(self) -> Ints:
        """The number of keys of each page when the batch began."""
        return np.diff(np.searchsorted(self._key_starts, np.append(self.pages.starts, len(self._order))))

    def most_rows_of(self, keys: int) -> tuple[int, int]:
        """Upper bound on the rows answered by reading `keys` keys, and how many keys that bound uses."""
        of_size = self._keys_by_rows
        taken = np.diff(np.minimum(np.cumsum(of_size[::-1]), keys), prepend=0)
        return int(taken @ np.arange(len(of_size) - 1, -1, -1)), int(taken.sum())

    @cached_property
    def _keys_by_rows(self) -> Ints:
        """The number of keys with 0, 1, 2 and more rows when the batch began."""
        return np.bincount(np.diff(self._key_starts, append=len(self._order)))

    @cached_property
    def _key_starts(self) -> Ints:
        codes = self._codes
        begins = np.append(np.ones(min(1, len(codes)), bool), codes[1:] != codes[:-1])
        begins[self.pages.starts] = True  # a code may be that of keys on several pages
        return np.flatnonzero(begins)

    @property
    def row_bytes(self) -> float:
        """The average bytes of a row in memory."""
        return self._pieces.row_bytes

    @property
    def age(self) -> int:
        """The number of rows that came after the oldest one that still waits."""
        return self.newest - int(self._serials[self.unanswered].min(initial=self.newest))

    @property
    def waited(self) -> Ints:
        """The product, for each page, of its waiting rows and the rows that came since its oldest one."""
        return self.pages.waiting * (self.newest + 1 - self.pages.oldest)

    @property
    def total(self) -> int:
        """The number of rows that waited at first."""
        return len(self._order)

    @cached_property
    def newest(self) -> int:
        return int(self._serials.max(initial=0))

    def keys_of(self, rows: Ints) -> Keys:
        return self._key.keys(self._keys.take(pa.array(self._order[rows])))

    def take(self, rows: Ints) -> pa.RecordBatch:
        return self._pieces.take(self._order[rows])

    def keys_in(self, groups: Ints) -> pa.RecordBatch:
        """Return the key columns of some groups of `keys`, every key once."""
        if self._key.hashed:
            return self.distinct_keys(self.keys.rows(groups))
        return self._keys.take(pa.array(self._order[self.keys.starts[groups]]))

    def distinct_keys(self, rows: Ints) -> pa.RecordBatch:
        """Return the key columns of some rows, every key once."""
        keys = self._key.distinct(self._keys.take(pa.array(self._order[rows])))
        return keys.select(list(self._key.columns))

    def on_pages(self, numbers: Ints) -> Ints:
        """Return the rows of pages, given by ascending number, that still wait."""
        at = np.searchsorted(self.page_numbers, numbers)
        here = at < len(self.page_numbers)
        at, numbers = at[here], numbers[here]
        return self._still(self.pages.rows(at[self.page_numbers[at] == numbers]))

    def of_keys(self, groups: Ints) -> Ints:
        """Return the rows of some groups of `keys` that still wait."""
        return self._still(self.keys.rows(groups))

    def answer(self, rows: Ints) -> None:
        """Mark rows as answered; they wait no longer."""
        self.unanswered[rows] = False
        self._left -= len(rows)
        self.pages.answered(rows)
        if "keys" in vars(self):
            self.keys.answered(rows)

    def left(self) -> tuple[Bools, Ints]:
        """Return the rows that still wait: a mask of all pieces but the last, and positions in the last one.

        The positions are in order of code, which all rows were put in at first. To sort the rows of a batch
        once more took 9 ms of 100,000 random keys.
        """
        waits = np.empty(len(self._order), bool)
        waits[self._order] = self.unanswered
        first = self._pieces.last_start
        of_last = self._by_code[self._by_code >= first]
        return waits[:first], of_last[waits[of_last]] - first

    def _still(self, rows: Ints) -> Ints:
        return rows[self.unanswered[rows]]


def _run_starts(values: Ints) -> Ints:
    """Return the positions at which runs of equal neighbours begin."""
    return np.flatnonzero(np.append(np.ones(min(1, len(values)), bool), values[1:] != values[:-1]))
