"""Punctuations of any shape, read one at a time. Those that name one value of each key column are many and
are read as columns in `json_records`; these are few.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from endmark.domain import PunctuationError
from endmark.punctuation.pattern import values_of
from endmark.punctuation.wire_json import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.punctuation.punctuation import Punctuation
    from endmark.types import ColumnType


def read_promise(
    record: bytes, stream: str, columns: Mapping[str, ColumnType], punctuated_on: Mapping[str, ColumnType]
) -> Punctuation:
    """Return the promise that a record makes about rows of its stream.

    Args:
        record: the record's value, JSON in UTF-8.
        stream: the name of its stream.
        columns: what the stream declares.
        punctuated_on: those of its columns that a promise may restrict.

    Raises:
        PunctuationError: it is none; the text says what is wrong.
    """
    domains = {name: kind.domain for name, kind in columns.items()}
    promise = decode(record, stream, domains)
    if not punctuated_on:  # which a promise of anything would not show, since it restricts no column
        raise PunctuationError("the stream takes no promises")
    for name in promise.names():
        if name not in punctuated_on:
            raise PunctuationError(
                f"attribute {name!r}: a promise restricts columns of `punctuated_on`, "
                f"{', '.join(punctuated_on)}, alone"
            )
    require_digits(promise, columns)
    return promise


def require_digits(promise: Punctuation, columns: Mapping[str, ColumnType]) -> None:
    """Refuse a decimal that is spelled with more digits than its column has, as in rows.

    Raises:
        PunctuationError: a decimal of the punctuation has too many digits.
    """
    for name, pattern in promise.patterns:
        for value in values_of(pattern):
            if isinstance(value, Decimal) and not columns[name].fits(value):
                raise PunctuationError(f"attribute {name!r}: {value} has more digits than a {columns[name]}")
