"""Reads columns from the fields of Avro records, and from those of records within them.

A field may be null instead of a record. All columns below it are null then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.wire.avro.columns import reader_of
from endmark.wire.values import sound, together

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from endmark.state.search import Ints
    from endmark.types import ColumnType
    from endmark.wire.avro.columns import Reader
    from endmark.wire.avro.cursor import Cursor
    from endmark.wire.avro.schema import AvroType
    from endmark.wire.values import Values

    Path = tuple[str, ...]
    Wanted = Mapping[Path, str]  # columns, by the names of the nested fields that lead to them
    NestedReader = Callable[[Cursor, Ints], dict[str, Values]]


def member_names(record: AvroType, members: Collection[str]) -> list[str | None]:
    """Return the member that each field is, by its name or else by an alias; `None` for a field that is none.

    Args:
        record: the type of a record.
        members: the names of the members.
    """
    taken = {field.name for field in record.fields}
    names: list[str | None] = []
    for field in record.fields:
        known = (alias for alias in field.aliases if alias in members and alias not in taken)
        name = field.name if field.name in members else next(known, None)
        names.append(name)
        taken |= {name} if name is not None else set()
    return names


def unknown_field(written: AvroType, wanted: Wanted) -> str | None:
    """Return the first field of a type that leads to no column, as a path; `None` if all of them do."""
    if () in wanted:
        return None
    if written.kind == "union":
        found = (unknown_field(branch, wanted) for branch in written.inner)
        return next((each for each in found if each is not None), None)
    for field, member in zip(written.fields, member_names(written, _members(wanted)), strict=True):
        if member is None:
            return field.name
        if (below := unknown_field(field.type, _below(wanted, member))) is not None:
            return f"{field.name}.{below}"
    return None


def nested_reader(written: AvroType, wanted: Wanted, columns: Mapping[str, ColumnType]) -> NestedReader:
    """Return a function that reads values of a type to their ends, and returns the columns that are in them.

    Args:
        written: the type, which gives the columns. A column that is not in it is left out.
        wanted: the columns that are in values of the type.
        columns: the types of all columns.
    """
    if not wanted:
        return partial(_skipped, written)
    if () in wanted:
        column = wanted[()]
        reader = reader_of(written, columns[column])
        if reader is None:
            raise AssertionError(f"{written} does not give column {column!r}")
        return partial(_column, column, reader)
    kinds = {column: columns[column] for column in wanted.values()}
    match written.kind:
        case "union":
            return partial(_either, [nested_reader(each, wanted, columns) for each in written.inner], kinds)
        case "null":
            return partial(_nulls, kinds)
    members = member_names(written, _members(wanted))
    return partial(
        _record,
        [
            nested_reader(field.type, {} if member is None else _below(wanted, member), columns)
            for field, member in zip(written.fields, members, strict=True)
        ],
    )


def _members(wanted: Wanted) -> set[str]:
    return {path[0] for path in wanted}


def _below(wanted: Wanted, member: str) -> dict[Path, str]:
    """Return the columns that are in one member."""
    return {path[1:]: column for path, column in wanted.items() if path[0] == member}


def _skipped(written: AvroType, cursor: Cursor, rows: Ints) -> dict[str, Values]:
    cursor.skip(rows, written)
    return {}


def _column(column: str, reader: Reader, cursor: Cursor, rows: Ints) -> dict[str, Values]:
    return {column: reader(cursor, rows)}


def _nulls(kinds: Mapping[str, ColumnType], _: Cursor, rows: Ints) -> dict[str, Values]:
    return {column: sound(pa.nulls(len(rows), kind.arrow)) for column, kind in kinds.items()}


def _record(fields: list[NestedReader], cursor: Cursor, rows: Ints) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for read in fields:
        found |= read(cursor, rows)
    return found


def _either(
    branches: list[NestedReader], kinds: Mapping[str, ColumnType], cursor: Cursor, rows: Ints
) -> dict[str, Values]:
    """Read values of a union. A column that a branch lacks is null there."""
    branch = cursor.index(rows, len(branches))
    there = [np.flatnonzero(branch == number) for number in range(len(branches))]
    found = [
        _nulls(kinds, cursor, at) | each(cursor, rows[at]) for each, at in zip(branches, there, strict=True)
    ]
    return {column: together([each[column] for each in found], there) for column in kinds}
