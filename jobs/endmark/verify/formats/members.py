"""Finds the columns of a stream among the members of a JSON object, at any depth, one record at a time.

A member is declared if a column is taken from it, or from a member within it. Such a member stands once in
its object. All others may be there under `extra: ignore` alone, and then they may hold anything.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any

from endmark.pipeline import Stream
from endmark.verify.formats.patterns import MARK

Path = tuple[str, ...]
# A flattened change of Debezium has this member, by which a deleted row differs from others.
DELETED = "__deleted"


class Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in their order; a name may stand twice."""

    def one(self, wanted: str) -> Any:
        """Return the value of a member.

        Raises:
            ValueError: the member is not there, or stands twice.
        """
        (found,) = (value for member, value in self if member == wanted)
        return found


def read(value: bytes) -> Any:
    """Return a JSON document whose objects are `Pairs`.

    Raises:
        ValueError: the bytes are no JSON in UTF-8, or half a surrogate pair is in a text.
        RecursionError: the document is too deep.
    """
    document = json.loads(
        value.decode("utf-8"), object_pairs_hook=Pairs, parse_constant=_refuse, parse_int=integer
    )
    json.dumps(document, ensure_ascii=False).encode("utf-8")
    return document


def columns_of(members: Pairs, paths: Mapping[str, Path], *, ignoring: bool) -> dict[str, Any]:
    """Return the values of columns, without those that are missing.

    Args:
        members: a JSON object.
        paths: for each column the names of the nested members that lead to it.
        ignoring: whether other members are left out, unless one is the mark of a deleted row.

    Raises:
        ValueError: a declared member stands twice, another one is there that counts, or something else than
            an object is where an object should be.
    """
    columns = {path: column for column, path in paths.items()}
    objects = {path[:depth] for path in paths.values() for depth in range(1, len(path))}
    found, seen = {}, set()
    for path, value in reached(members, objects):
        if path not in columns and path not in objects:
            if not ignoring or path == (DELETED,):
                raise ValueError(f"{path} is not declared")
            continue
        if path in seen:
            raise ValueError(f"{path} stands twice")
        seen.add(path)
        if path in columns:
            found[columns[path]] = value
        elif value is not None and not isinstance(value, Pairs):
            raise ValueError(f"{path} is no object")
    return found


def reached(
    members: Pairs | Mapping[str, Any], objects: Container[Path], before: Path = ()
) -> Iterator[tuple[Path, Any]]:
    """Yield the members of an object with their paths, and those within objects at some paths."""
    for member, value in members if isinstance(members, Pairs) else members.items():
        path = (*before, member)
        yield path, value
        if path in objects and isinstance(value, Pairs | dict):
            yield from reached(value, objects, path)


def by_columns(value: bytes, declared: Stream) -> dict[str, Any] | bytes | None:
    """Return the columns of a row in JSON, and a punctuation as it is.

    `None` is any other record, as far as its members show. The values may be no values of their columns.

    Args:
        value: a record in JSON.
        declared: the stream, with the columns of its records' values.
    """
    try:
        document = read(value)
        if not isinstance(document, Pairs):
            return None
        # It is no member that may be ignored: a row with it is a dead letter.
        if any(member == MARK for member, _ in document):
            return value
        return columns_of(document, declared.value_paths, ignoring=declared.extra == "ignore")
    except (ValueError, RecursionError):
        return None


def integer(digits: str) -> int:
    """Read an integer. One of 1,000 digits or more becomes 10**1000, also too large for every column."""
    return int(digits) if len(digits) < 1000 else 10**1000


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
