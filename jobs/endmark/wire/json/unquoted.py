"""Reads columns of values from texts that spell them as JSON does, but without quotes.

A text becomes a JSON record of one member, and the reader of rows reads that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.domain import Domain
from endmark.punctuation.scalars import TEXTS
from endmark.wire.json.reader import JsonReader, mask
from endmark.wire.json.spelling import pattern

if TYPE_CHECKING:
    from endmark.state.search import Ints
    from endmark.types import ColumnType


class UnquotedReader:
    """Reads values of one type.

    Args:
        kind: the type; whether it is nullable does not count.
    """

    def __init__(self, kind: ColumnType) -> None:
        quoted = kind.spelled in TEXTS
        self._is_text = kind.spelled is Domain.STRING
        one = pattern(kind)
        self._pattern = f"^{one[1:-1] if quoted else one}$"
        quote = b'"' if quoted else b""
        self._before, self._behind = b'{"it":' + quote, quote + b"}"
        self._reader = JsonReader({"it": kind.required}, {"it": ("it",)})

    def read(self, texts: pa.Array) -> tuple[pa.Array, Ints]:
        """Return the values of the texts that have one, and their positions. None raises."""
        if self._is_text:
            at = _unicode(texts, np.flatnonzero(mask(texts.is_valid())))
            return texts.take(pa.array(at)).cast(pa.string()), at
        at = np.flatnonzero(mask(pc.match_substring_regex(texts, self._pattern)))
        spelled = pc.binary_join_element_wise(
            pa.scalar(self._before), texts.take(pa.array(at)), pa.scalar(self._behind), pa.scalar(b"")
        )
        found, among = self._reader.read(spelled, np.arange(len(at)))
        return found.column(0), at[among]


def _unicode(texts: pa.Array, at: Ints) -> Ints:
    """Return those of some positions whose text is UTF-8."""
    try:
        texts.take(pa.array(at)).cast(pa.string())
    except pa.ArrowInvalid:
        if len(at) == 1:
            return at[:0]
        return np.concatenate([_unicode(texts, half) for half in np.array_split(at, 2)])
    return at


def scattered(values: pa.Array, at: Ints, count: int) -> pa.Array:
    """Return `count` values, which are null but at some positions."""
    if len(at) == count:
        return values
    number, there = np.zeros(count, np.int64), np.zeros(count, bool)
    number[at], there[at] = np.arange(len(at)), True
    return values.take(pa.array(number, mask=~there))
