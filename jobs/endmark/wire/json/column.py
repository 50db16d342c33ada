"""Reads punctuations as JSON from a column of text, such as `{"item_id": {"equals": 42}}`.

Punctuations that name a key are many and are read a column at a time. All others are read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.domain import PunctuationError
from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.pattern import values_of
from endmark.punctuation.wire_json import decode_patterns
from endmark.types import ColumnType
from endmark.wire.json.promises import require_digits
from endmark.wire.json.reader import JsonReader, mask, matching
from endmark.wire.json.spelling import example, naming

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.punctuation.pattern import Pattern
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.search import Bools, Ints


@dataclass(frozen=True)
class Punctuated:
    """The punctuations of a column of text.

    Args:
        closed_keys: the keys that punctuations name by one value of each column, in the columns' own types.
        promises: punctuations of any other shape.
        rejected: the bytes of texts that are no punctuation of these columns, each with its error.
    """

    closed_keys: pa.RecordBatch
    promises: list[Punctuation]
    rejected: list[tuple[bytes, str]]


class TextReader:
    """Reads punctuations of some columns one by one.

    Args:
        columns: the columns that a punctuation may restrict, of types that `kind_of` knows.
        stream: the name of their stream, for errors.
        example: a punctuation of these columns, for errors.
    """

    def __init__(self, columns: pa.Schema, stream: str, example: str) -> None:
        self._stream = stream
        self._types = {field.name: field.type for field in columns}
        self._kinds = {name: kind_of(kind) for name, kind in self._types.items()}
        self.domains = {name: domain_of_type(kind) for name, kind in self._types.items()}
        self._example = example

    def read(self, text: bytes) -> Punctuation:
        """Read the punctuation of a text, which may be any bytes.

        Raises:
            PunctuationError: the text is no punctuation. The error has an example of one.
        """
        try:
            promise = decode_patterns(text, self._stream, self.domains)
            require_digits(promise, self._kinds)
            for name, pattern in promise.patterns:
                self._require_fit(name, pattern)
        except PunctuationError as why:
            raise PunctuationError(f"{why}; a punctuation is such as {self._example}") from None
        return promise

    def _require_fit(self, name: str, pattern: Pattern) -> None:
        for value in values_of(pattern):
            try:
                pa.scalar(value, self._types[name])
            except pa.ArrowInvalid:
                raise PunctuationError(f"attribute {name!r}: {value} is no {self._types[name]}") from None


class NamedReader:
    """Reads punctuations that name a key, for whole columns of text.

    Args:
        key: the columns of the key, of types that `kind_of` knows.
    """

    def __init__(self, key: pa.Schema) -> None:
        self._key = key
        named = {field.name: kind_of(field.type) for field in key}
        self._naming = naming(named)
        self._reader = JsonReader(named, {name: (name, "equals") for name in named})

    def read(self, texts: pa.Array) -> tuple[pa.RecordBatch, Ints]:
        """Return the keys that texts name, in the columns' own types, and the positions of these texts.

        Texts that name no key are left out, and none raises.
        """
        values = texts.cast(pa.binary())
        found, at = self._reader.read(values, np.flatnonzero(matching(values, self._naming)))
        fit = self._fit(found)
        return found.filter(pa.array(fit)).cast(self._key), at[fit]

    def _fit(self, named: pa.RecordBatch) -> Bools:
        """Return a mask of the keys that fit the columns' own types: some integers have too many bits."""
        fit = np.ones(named.num_rows, bool)
        for name, kind in zip(self._key.names, self._key.types, strict=True):
            if pa.types.is_integer(kind):
                column = named.column(name)
                fit &= mask(pc.equal(column.cast(kind, safe=False).cast(pa.int64()), column))
        return fit


class TextPunctuations:
    """Reads punctuations of some columns: keys a column at a time, and all others one by one.

    Args:
        columns: the columns that a punctuation may restrict, of types that `kind_of` knows.
        key: the names of the key columns.
        stream: the name of their stream, for errors.
    """

    def __init__(self, columns: pa.Schema, key: Sequence[str], stream: str) -> None:
        named = pa.schema([columns.field(name) for name in key])
        self._named = NamedReader(named)
        self._one = TextReader(columns, stream, example_of(named))

    def read(self, texts: pa.Array) -> Punctuated:
        """Read the texts that are not null. No text raises."""
        closed_keys, at = self._named.read(texts)
        others = np.ones(len(texts), bool)
        others[at] = False
        promises, rejected = [], []
        # Spark's strings may hold bytes that are not UTF-8, of which Arrow makes no Python text.
        for text in texts.filter(pa.array(others)).cast(pa.binary()).to_pylist():
            try:
                promises.append(self._one.read(text))
            except PunctuationError as why:
                rejected.append((text, str(why)))
        return Punctuated(closed_keys, promises, rejected)


def example_of(key: pa.Schema) -> str:
    """Return an example of a punctuation that names a key."""
    equals = ", ".join(f'"{field.name}": {{"equals": {example(kind_of(field.type))}}}' for field in key)
    return f"{{{equals}}}"


def kind_of(arrow: pa.DataType) -> ColumnType:
    """Return the declared type whose spelling the values of a column have.

    Raises:
        PunctuationError: no pattern can restrict columns of the type.
    """
    if pa.types.is_decimal128(arrow):
        return ColumnType.decimal(arrow.precision, arrow.scale)
    return ColumnType(domain_of_type(arrow))


def is_restrictable(arrow: pa.DataType) -> bool:
    """Return whether patterns can restrict columns of a type."""
    try:
        kind_of(arrow)
    except PunctuationError:
        return False
    return True
