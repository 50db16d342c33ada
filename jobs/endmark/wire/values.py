"""Values of one column of binary records, and which of them the column cannot hold."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.domain import Domain
from endmark.wire.json.unquoted import scattered

if TYPE_CHECKING:
    from endmark.state.search import Bools, Ints
    from endmark.types import ColumnType, Spelling
    from endmark.wire.json.unquoted import UnquotedReader

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Values:
    """The values of one column.

    Args:
        array: the values, one for each record. A null stands for Avro's null.
        bad: a mask of the values that the column cannot hold; `array` has anything there.
        garbled: a mask of the texts that are not UTF-8; `array` has an empty text there.
    """

    array: pa.Array
    bad: Bools
    garbled: Bools

    def filter(self, wanted: Bools) -> Values:
        """Return the values of the records in a mask."""
        return Values(self.array.filter(pa.array(wanted)), self.bad[wanted], self.garbled[wanted])


def sound(array: pa.Array, bad: Bools | None = None) -> Values:
    """Return values of which no text is garbled, and none is bad but those of a mask."""
    none = np.zeros(len(array), bool)
    return Values(array, none if bad is None else bad, none)


def together(found: list[Values], there: list[Ints]) -> Values:
    """Return the values of all branches of a union in the order of records, by the places of each branch."""
    position = np.empty(sum(map(len, there)), np.int64)
    position[np.concatenate(there)] = np.arange(len(position))
    return Values(
        pa.concat_arrays([each.array for each in found]).take(pa.array(position)),
        np.concatenate([each.bad for each in found])[position],
        np.concatenate([each.garbled for each in found])[position],
    )


def longs_of(numbers: Ints, kind: ColumnType) -> Values:
    """Return the values of a column of longs."""
    return sound(pa.array(numbers), None if kind.spelling is None else out_of(kind.spelling, numbers))


def doubles_of(numbers: np.ndarray, kind: ColumnType) -> Values:
    """Return the values of a column of doubles, of which none is NaN or infinite."""
    bad = ~np.isfinite(numbers)
    return sound(pa.array(numbers), bad if kind.spelling is None else bad | out_of(kind.spelling, numbers))


def times_of(numbers: Ints, kind: ColumnType, unit: Spelling) -> Values:
    """Return the values of a column of times or dates, given the number of units of each since 1970."""
    bad = out_of(unit, numbers)
    ordinals = pa.array(np.where(bad, 0, numbers) * unit.step)
    return sound(
        (ordinals.cast(pa.int32()) if kind.domain is Domain.DATE else ordinals).cast(kind.arrow), bad
    )


def texts_of(texts: pa.Array) -> Values:
    """Return the values of a column of texts, given their bytes."""
    none = np.zeros(len(texts), bool)
    try:
        return Values(texts.cast(pa.string()), none, none)
    except pa.ArrowInvalid:
        garbled = np.array([not _is_unicode(text) for text in texts.to_pylist()])  # this is rare
        texts = pc.if_else(pa.array(garbled), pa.scalar(b"", pa.binary()), texts)
        return Values(texts.cast(pa.string()), none, garbled)


def spelled_of(texts: Values, reader: UnquotedReader) -> Values:
    """Return the values of a column whose values are texts, which `reader` reads."""
    found, at = reader.read(texts.array.cast(pa.binary()))
    bad = np.ones(len(texts.array), bool)
    bad[at] = False
    some = _EPOCH.date() if pa.types.is_date(found.type) else _EPOCH
    some_value = pa.scalar(Decimal(0) if pa.types.is_decimal(found.type) else some, found.type)
    return Values(pc.fill_null(scattered(found, at, len(bad)), some_value), bad, texts.garbled)


def out_of(spelling: Spelling, numbers: np.ndarray) -> Bools:
    """Return a mask of the numbers that are out of the range of a spelling."""
    return np.asarray((numbers < spelling.least) | (numbers > spelling.greatest))


def _is_unicode(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
