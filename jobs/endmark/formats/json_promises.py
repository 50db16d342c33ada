"""Punctuations of any shape, read one at a time. Those that name one value of each key column are many and
are read as columns in `json_records`; these are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.punctuation.columns import domain_of_type
from endmark.punctuation.domain import PunctuationError
from endmark.punctuation.pattern import values_of
from endmark.punctuation.wire_json import decode
from endmark.types import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.punctuation.punctuation import Punctuation
    from endmark.types import ColumnType


def read_promise(
    record: bytes, stream: str, columns: Mapping[str, ColumnType], punctuated_on: Mapping[str, ColumnType]
) -> Punctuation:
    """The promise a record makes about rows of its stream.

    Args:
        columns: what the stream declares.
        punctuated_on: those of its columns that a promise may restrict.

    Raises:
        PunctuationError: it is none; the text says what is wrong.
    """
    domains = {name: domain_of_type(kind.arrow) for name, kind in columns.items()}
    promise = decode(record, stream, domains)
    for name, pattern in promise.patterns:
        if name not in punctuated_on:
            raise PunctuationError(
                f"attribute {name!r}: a promise restricts columns of `punctuated_on`, "
                f"{', '.join(punctuated_on)}, alone"
            )
        kind = columns[name]
        for value in values_of(pattern):
            if kind.kind is Kind.DECIMAL and not kind.fits(value):  # type: ignore[arg-type]
                raise PunctuationError(f"attribute {name!r}: {value} is no {kind}")
    return promise
