"""The shape of a record in JSON: which members of its objects are columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from endmark.punctuation.json_shape import MEMBER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Path = tuple[str, ...]
    Shape = dict[str, "str | Shape"]

# Debezium's transform to flat records marks a deleted row by this member. Without it, the row would be one
# like others.
DELETED = "__deleted"
# The members of a record that count even where others are ignored.
NEVER_IGNORED = frozenset([MEMBER, DELETED])


def shape_of(paths: Mapping[str, Path]) -> Shape:
    """Return the declared members of a record by name: a column, or the shape of an object with columns.

    Args:
        paths: for each column the names of the nested members that lead to it.
    """
    found: Shape = {}
    for column, (*outer, last) in paths.items():
        inner = found
        for name in outer:
            inner = cast("Shape", inner.setdefault(name, {}))  # no path leads through another column
        inner[last] = column
    return found


def undeclared(record: Mapping[str, Any], shape: Shape, before: str = "") -> Iterator[str]:
    """Yield the paths of the members that are not declared, in the order of the record, with dots in them.

    Args:
        record: a JSON object.
        shape: its shape.
        before: the path of the object, with a dot behind it; empty for a record.
    """
    for name, value in record.items():
        if name not in shape:
            yield before + name
        elif isinstance(inner := shape[name], dict) and isinstance(value, dict):
            yield from undeclared(value, inner, f"{before}{name}.")


def declared(record: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return a JSON object without the members that are not declared, at any depth."""
    found = {}
    for name, value in record.items():
        if name in shape:
            inner = shape[name]
            nested = isinstance(inner, dict) and isinstance(value, dict)
            found[name] = declared(value, cast("Shape", inner)) if nested else value
    return found
