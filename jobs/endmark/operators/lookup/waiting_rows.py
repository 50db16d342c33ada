"""Rows that wait for an answer of R, grouped by page and by key.

The rows lie in several batches. Only rows that are asked for are copied together.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from endmark.operators.lookup.row_groups import KeyGroups, PageGroups
from endmark.state import codec
from endmark.state.segment import int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.relation.contract import PageDirectory
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints

SERIAL = "$serial"  # int64: the order in which rows arrived


class Piece(NamedTuple):
    """Some rows of a batch.

    Args:
        batch: the batch.
        positions: the positions of the rows; `None`: all rows of the batch.
    """

    batch: pa.RecordBatch
    positions: Ints | None = None

    def __len__(self) -> int:
        return int(self.batch.num_rows) if self.positions is None else len(self.positions)

    def select(self, names: list[str]) -> pa.RecordBatch:
        """Return some columns of all rows of the piece."""
        chosen = self.batch.select(names)
        return chosen if self.positions is None else chosen.take(pa.array(self.positions))

    def take(self, at: Ints) -> pa.RecordBatch:
        """Return some rows, given by their positions in the piece."""
        return self.batch.take(pa.array(at if self.positions is None else self.positions[at]))


class Pieces:
    """The rows of at least one piece, in order.

    A batch may answer only a tenth of 250 MB that wait for a lookup. To copy all rows together took a third
    of its time. `Table.take` of pyarrow 26 takes 22 to 27 ms for each read of 240 MB; `take` here takes 15
    ms.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        lengths = np.array([len(piece) for piece in pieces])
        self._starts: Ints = np.cumsum(lengths) - lengths
        self._bytes = sum(
            int(piece.batch.nbytes) * len(piece) / max(1, int(piece.batch.num_rows)) for piece in pieces
        )
        self.num_rows = int(lengths.sum())

    @property
    def starts(self) -> Ints:
        """The position of each piece's first row."""
        return self._starts

    @property
    def row_bytes(self) -> float:
        """The average bytes of a row in memory."""
        return self._bytes / max(1, self.num_rows)

    def take(self, at: Ints) -> pa.RecordBatch:
        """Return the rows at ascending positions."""
        of_each = np.split(at, np.searchsorted(at, self._starts[1:]))
        asked = list(zip(self._pieces, self._starts, of_each, strict=True))
        some = [each for each in asked if len(each[2])] or asked[:1]
        return codec.concat([piece.take(those - start) for piece, start, those in some])


class _Run(NamedTuple):
    """The rows of one piece by page, and within a page by code.

    Args:
        piece: the rows.
        keys: their key columns, with the code.
        serials: their serial numbers.
        ends: the number of rows on each page of R or before it.
        order: the position of each row in the piece as it was given; `None` is the same position.
        by_code: the positions of the given rows in order of code; `None` is the order in which they were
            given.
    """

    piece: Piece
    keys: pa.RecordBatch
    serials: Ints
    ends: Ints
    order: Ints | None
    by_code: Ints | None

    @classmethod
    def of(cls, piece: Piece, key: KeySpec, directory: PageDirectory, *, is_sorted: bool) -> _Run:
        """Bring the rows of a piece in order.

        Args:
            piece: the rows.
            key: their key.
            directory: R's pages.
            is_sorted: the rows are in order of code.
        """
        rows = piece.select([*key.stored, SERIAL])
        by_code = None if is_sorted else key.order(rows)
        if key.hashed:
            order = np.arange(len(piece)) if by_code is None else by_code
            pages = directory.page_of(rows.select(list(key.columns)).take(pa.array(order)))
            by_page = np.argsort(pages, kind="stable")
            found: Ints | None = order[by_page]
            ends = np.searchsorted(pages[by_page], np.arange(len(directory)), "right")
        else:
            # Pages ascend as their keys do. To find the few bounds among the many keys takes a tenth of the
            # time of finding the page of each key.
            codes = key.keys(rows).codes
            found = by_code
            ends = directory.ends(codes if by_code is None else codes[by_code])
        if found is not None:
            rows = rows.take(pa.array(found))
            piece = Piece(piece.batch, found if piece.positions is None else piece.positions[found])
        return cls(piece, rows.select(key.stored), int64(rows.column(SERIAL)), ends, found, by_code)

    def as_given(self, mask: Bools) -> Bools:
        """Return a mask of the rows in the order in which they were given."""
        if self.order is None:
            return mask
        found = np.empty(len(mask), bool)
        found[self.order] = mask
        return found

    def coded(self, mask: Bools) -> Ints:
        """Return the positions of the rows of a mask as they were given, in order of code."""
        given = self.as_given(mask)
        return np.flatnonzero(given) if self.by_code is None else self.by_code[given[self.by_code]]


class Waiting:
    """The waiting rows of one batch. Each piece is ordered by page, and within a page by the code of its key.

    Methods take and return rows as positions among all pieces in this order.

    Args:
        pieces: stream rows with their code and `SERIAL`; at least one piece. All pieces but the last are
            sorted by code.
        key: the key of the rows.
        directory: R's pages.

    Attributes:
        pages: the groups of rows of one page, in the order of `page_numbers`.
        unanswered: a mask of the rows that still wait.
    """

    def __init__(self, pieces: Sequence[Piece], key: KeySpec, directory: PageDirectory) -> None:
        last = len(pieces) - 1
        self._runs = [
            _Run.of(piece, key, directory, is_sorted=number < last) for number, piece in enumerate(pieces)
        ]
        self._key = key
        self._pieces = Pieces([run.piece for run in self._runs])
        self._keys = codec.concat([run.keys for run in self._runs])
        self._serials = np.concatenate([run.serials for run in self._runs])
        self.unanswered = np.ones(len(self._serials), bool)
        self._left = self.total
        begins = self._pieces.starts
        ends = np.array([run.ends for run in self._runs]) + begins[:, np.newaxis]
        self.pages = PageGroups(begins, ends, self._serials)

    @property
    def page_numbers(self) -> Ints:
        """The ascending numbers of the pages that rows wait for, or did when the batch began."""
        return self.pages.numbers

    def __len__(self) -> int:
        """Return the number of rows that still wait."""
        return self._left

    @cached_property
    def keys(self) -> KeyGroups:
        """The groups of rows of one page and equal code."""
        return KeyGroups(self._by_key, self._key_starts, self._serials, self.unanswered)

    @cached_property
    def keys_on_page(self) -> Ints:
        """The number of keys on each page when the batch began."""
        return np.diff(np.searchsorted(self._key_starts, np.append(self.pages.starts, self.total)))

    def most_rows_of(self, keys: int) -> tuple[int, int]:
        """Upper bound on the rows answered by reading `keys` keys, and how many keys that bound uses."""
        of_size = self._keys_by_rows
        taken = np.diff(np.minimum(np.cumsum(of_size[::-1]), keys), prepend=0)
        return int(taken @ np.arange(len(of_size) - 1, -1, -1)), int(taken.sum())

    @cached_property
    def _keys_by_rows(self) -> Ints:
        """The number of keys with 0, 1, 2 and more rows when the batch began."""
        return np.bincount(np.diff(self._key_starts, append=self.total))

    @cached_property
    def _by_key(self) -> Ints:
        """The positions of all rows in order of page and code. Only reads by key need it."""
        by_code = self._key.order(self._keys)
        if not self._key.hashed:
            return by_code
        return by_code[np.argsort(self.pages.of_rows(by_code), kind="stable")]

    @cached_property
    def _key_starts(self) -> Ints:
        codes = self._key.keys(self._keys).codes[self._by_key]
        begins = np.append(np.ones(min(1, len(codes)), bool), codes[1:] != codes[:-1])
        begins[self.pages.starts] = True  # keys on several pages may have the same code
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
        return len(self._serials)

    @cached_property
    def newest(self) -> int:
        """The serial number of the newest row."""
        return int(self._serials.max(initial=0))

    def keys_of(self, rows: Ints) -> Keys:
        """Return the key of each of some rows."""
        return self._key.keys(self._keys.take(pa.array(rows)))

    def take(self, rows: Ints) -> pa.RecordBatch:
        """Return some rows, given by ascending positions, with all columns."""
        return self._pieces.take(rows)

    def keys_in(self, groups: Ints) -> pa.RecordBatch:
        """Return the key columns of some groups of `keys`, each key once."""
        if self._key.hashed:
            return self.distinct_keys(self.keys.rows(groups))
        return self._keys.take(pa.array(self.keys.one_row[groups]))

    def distinct_keys(self, rows: Ints) -> pa.RecordBatch:
        """Return the key columns of some rows, each key once."""
        keys = self._key.distinct(self._keys.take(pa.array(rows)))
        return keys.select(list(self._key.columns))

    def on_pages(self, numbers: Ints) -> Ints:
        """Return the rows of pages, given by ascending number, that still wait."""
        at = np.searchsorted(self.page_numbers, numbers)
        here = at < len(self.page_numbers)
        at, numbers = at[here], numbers[here]
        return self._still(self.pages.rows(at[self.page_numbers[at] == numbers]))

    def of_keys(self, groups: Ints) -> Ints:
        """Return the rows of some groups of `keys` that still wait."""
        return self._still(np.sort(self.keys.rows(groups)))

    def answer(self, rows: Ints) -> None:
        """Mark rows as answered; they wait no longer."""
        self.unanswered[rows] = False
        self._left -= len(rows)
        self.pages.answered(rows)
        if "keys" in vars(self):
            self.keys.answered(rows)

    def left(self) -> tuple[Bools, Ints]:
        """Return the rows that still wait: a mask of all pieces but the last, and positions in the last one.

        The positions are in order of code, which rows were put in at first. To sort the rows of a batch once
        more took 6 ms of 100,000 random keys.
        """
        *earlier, of_last = np.split(self.unanswered, self._pieces.starts[1:])
        masks = [run.as_given(mask) for run, mask in zip(self._runs[:-1], earlier, strict=True)]
        return np.concatenate([np.empty(0, bool), *masks]), self._runs[-1].coded(of_last)

    def _still(self, rows: Ints) -> Ints:
        return rows[self.unanswered[rows]]
