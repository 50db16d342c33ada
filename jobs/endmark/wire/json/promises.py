"""Reads punctuations of any shape one at a time. They are few: `json_records` reads those that name a key."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from endmark.domain import PunctuationError
from endmark.punctuation.heartbeat import first_possible
from endmark.punctuation.numbers import from_numbers
from endmark.punctuation.pattern import values_of
from endmark.punctuation.wire_json import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.punctuation.punctuation import Punctuation
    from endmark.types import ColumnType


def read_promise(
    record: bytes,
    stream: str,
    columns: Mapping[str, ColumnType],
    punctuated_on: Mapping[str, ColumnType],
    heartbeat_on: str | None,
) -> Punctuation:
    """Return the promise that a record makes about rows of its stream.

    Args:
        record: the value of the record, JSON in UTF-8.
        stream: the name of the stream.
        columns: the types of the stream's columns, by name.
        punctuated_on: the columns that a promise may restrict, with their types.
        heartbeat_on: the column that a heartbeat may restrict; `None` if the stream has no heartbeats.

    Raises:
        PunctuationError: the record is no punctuation of this stream.
    """
    domains = {name: kind.spelled for name, kind in columns.items()}
    promise = from_numbers(decode(record, stream, domains), columns)
    if first_possible(promise, heartbeat_on) is not None:
        return promise
    if not punctuated_on:  # the loop below cannot refuse a promise of anything, which restricts no column
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
    """Refuse a decimal with more digits than its column has, as it is refused in rows.

    Raises:
        PunctuationError: a decimal of the punctuation has too many digits.
    """
    for name, pattern in promise.patterns:
        for value in values_of(pattern):
            if isinstance(value, Decimal) and not columns[name].fits(value):
                raise PunctuationError(f"attribute {name!r}: {value} has more digits than a {columns[name]}")
