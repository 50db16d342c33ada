"""Layouts of Avro records: how the fields of one writer's record become columns of a stream.

A layout is made once for each schema, and then reads the columns of many records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.types import ColumnType
from endmark.wire.avro_columns import reader_of
from endmark.wire.json_reader import mask
from endmark.wire.rejection import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.state.search import Bools, Ints
    from endmark.wire.avro_columns import Reader, Values
    from endmark.wire.avro_cursor import Cursor
    from endmark.wire.avro_schema import AvroType

PUNCTUATION = "endmark.Punctuation"
_TEXT = "punctuation"


@dataclass(frozen=True)
class Columns:
    """The columns of some records.

    Args:
        batch: the columns; rows of records that are defective have anything.
        sound: a mask of the records that have a value of each column.
        defects: for each other record its position here, the reason, and the error.
    """

    batch: pa.RecordBatch
    sound: Bools
    defects: list[tuple[int, str, str]]


class Layout:
    """The columns that one type of records has.

    Args:
        record: the type, a record.
        columns: the columns to read; those that are not nullable have a value.
        ignoring: whether the type may have fields that are no columns.

    Attributes:
        extra: whether the type has such fields.

    Raises:
        UnreadableError: the type does not give the columns.
    """

    def __init__(self, record: AvroType, columns: Mapping[str, ColumnType], *, ignoring: bool) -> None:
        self._columns = columns
        names = column_names(record, columns)
        self.extra = None in names
        if self.extra and not ignoring:
            field = record.fields[names.index(None)].name
            raise UnreadableError(
                "unknown_field", f"field {field!r} is not declared; declared are {', '.join(columns)}"
            )
        there = {name: each.type for name, each in zip(names, record.fields, strict=True) if name is not None}
        readers: dict[str, Reader] = {}
        for name, kind in columns.items():
            if name not in there:
                if not kind.nullable:
                    raise UnreadableError("missing_field", f"the schema has no field {name!r}")
                continue
            if (reader := reader_of(there[name], kind)) is None:
                raise UnreadableError(
                    "wrong_type", f"field {name!r} must be readable as {kind}, but is {there[name]}"
                )
            readers[name] = reader
        self._steps = [
            (each.type, name, None if name is None else readers[name])
            for name, each in zip(names, record.fields, strict=True)
        ]

    def read(self, cursor: Cursor, rows: Ints) -> Columns:
        """Read records to their ends.

        Args:
            cursor: stands at the first field of each record.
            rows: the positions of the records there, ascending.
        """
        found: dict[str, Values] = {}
        for written, name, reader in self._steps:
            if name is None or reader is None:
                cursor.skip(rows, written)
            else:
                found[name] = reader(cursor, rows)
        cursor.finish(rows)
        defects = self._defects(cursor.malformed[rows], found)
        sound = np.ones(len(rows), bool)
        sound[[at for at, _, _ in defects]] = False
        arrays = [
            found[name].array if name in found else pa.nulls(len(rows), kind.arrow)
            for name, kind in self._columns.items()
        ]
        return Columns(pa.record_batch(arrays, names=list(self._columns)), sound, defects)

    def _defects(self, malformed: Bools, found: Mapping[str, Values]) -> list[tuple[int, str, str]]:
        """Return the first defect of each defective record, in the order in which reasons count."""
        kinds = self._columns
        marked = [(malformed, "malformed", "the bytes are no value of it, or others stand behind the value")]
        marked += [
            (each.garbled, "not_utf8", f"the text of field {name!r} is not UTF-8")
            for name, each in found.items()
        ]
        marked += [
            (mask(pc.is_null(found[name].array)), "missing_field", f"field {name!r} is null")
            for name, kind in kinds.items()
            if name in found and not kind.nullable and found[name].array.null_count
        ]
        marked += [
            (each.bad, "bad_value", f"the value of field {name!r} is out of the range of {kinds[name]}")
            for name, each in found.items()
        ]
        defects: dict[int, tuple[str, str]] = {}
        for bad, reason, error in marked:
            for at in np.flatnonzero(bad).tolist():
                defects.setdefault(at, (reason, error))
        return [(at, *defect) for at, defect in sorted(defects.items())]


def punctuation_layout(record: AvroType) -> Layout:
    """Return the layout of punctuations, whose one column has texts.

    Raises:
        UnreadableError: the type has no such field.
    """
    if not any(field.name == _TEXT and field.type.kind == "string" for field in record.fields):
        raise UnreadableError("bad_schema", f"{PUNCTUATION} has no field {_TEXT!r} of type string")
    return Layout(record, {_TEXT: ColumnType.STRING}, ignoring=True)


def column_names(record: AvroType, columns: Mapping[str, ColumnType]) -> list[str | None]:
    """Return the column of each field, by its name or else by an alias; `None` for a field without one."""
    taken = {field.name for field in record.fields}
    names: list[str | None] = []
    for field in record.fields:
        known = (alias for alias in field.aliases if alias in columns and alias not in taken)
        name = field.name if field.name in columns else next(known, None)
        names.append(name)
        taken |= {name} if name is not None else set()
    return names
