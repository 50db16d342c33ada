"""The parts of a Kafka record from which columns are taken: its value, key, headers and timestamp."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Self

from endmark.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Mapping

_PUNCTUATION = "$punctuation"
MEMBER = r'[^."\\\x00-\x1f]+'  # without what JSON escapes
PATTERN = rf"^(value(\.{MEMBER})+|key(\.{MEMBER})*|header\..+|timestamp)$"  # a header's name may have dots


class Origin(StrEnum):
    """The part of a Kafka record."""

    VALUE = "value"
    KEY = "key"
    HEADER = "header"
    TIMESTAMP = "timestamp"


_IN_JSON = (Origin.VALUE, Origin.KEY)


@dataclass(frozen=True)
class RecordPart:
    """The part of a Kafka record that has the values of a column; `str` gives its name in a pipeline file.

    Args:
        origin: the part of the record.
        path: the names of the nested members that lead to a value in JSON, or the one name of a header. It is
            empty for the whole key as text, and for the timestamp.
    """

    origin: Origin
    path: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the part of a name in a pipeline file.

        Raises:
            ValueError: no part has the name; the text lists the forms.
        """
        if re.fullmatch(PATTERN, text):
            origin, _, rest = text.partition(".")
            names = [rest] if origin == Origin.HEADER else rest.split(".")
            return cls(Origin(origin), tuple(names) if rest else ())
        raise ValueError(
            f"{text[:60]!r} is no part of a record; write value.order.id for a member of the value, key for "
            "the whole key as text, key.id for a member of a key in JSON, header.tenant for a header, or "
            "timestamp for Kafka's time of the record"
        )

    def __str__(self) -> str:
        return ".".join((self.origin, *self.path))


def require_parts(columns: Mapping[str, ColumnType], parts: Mapping[str, RecordPart]) -> None:
    """Refuse parts of a record that cannot give the columns of a stream.

    Args:
        columns: the types of all columns, by name.
        parts: the part of each of them.

    Raises:
        ValueError: a timestamp has another type, no column comes from the value, or the members of two
            columns are one, or one is within the other.
    """
    for column, part in parts.items():
        if part.origin is Origin.TIMESTAMP and columns[column].required != ColumnType.TIMESTAMP:
            raise ValueError(
                f"taken_from.{column}: the record's timestamp is a timestamp, and the column is "
                f"{columns[column]}; declare it timestamp"
            )
        if part.origin in _IN_JSON and part.path[:1] == (_PUNCTUATION,):
            raise ValueError(
                f"taken_from.{column}: a record with {_PUNCTUATION} is a punctuation, and no row"
            )
    if all(part.origin is not Origin.VALUE for part in parts.values()):
        raise ValueError("taken_from: at least one column is a member of the record's value")
    members = sorted(
        (part.origin, part.path, column) for column, part in parts.items() if part.origin in _IN_JSON
    )
    for (origin, path, column), (other_origin, other_path, other) in pairwise(members):
        if path and (origin, path) == (other_origin, other_path[: len(path)]):
            raise ValueError(
                f"taken_from: {RecordPart(origin, path)} of column {column!r} has "
                f"{RecordPart(origin, other_path)} of column {other!r} in it; a member is one column, or an "
                "object of columns"
            )
