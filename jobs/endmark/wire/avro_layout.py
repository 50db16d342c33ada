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
from endmark.wire.avro_members import member_names, nested_reader, unknown_field
from endmark.wire.json_reader import mask
from endmark.wire.rejection import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.state.search import Bools, Ints
    from endmark.wire.avro_columns import Values
    from endmark.wire.avro_cursor import Cursor
    from endmark.wire.avro_members import Path
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
        paths: for each column the names of the nested fields that lead to it.
        ignoring: whether the type may have fields that are no columns.

    Attributes:
        extra: whether the type has such fields.

    Raises:
        UnreadableError: the type does not give the columns.
    """

    def __init__(
        self,
        record: AvroType,
        columns: Mapping[str, ColumnType],
        paths: Mapping[str, Path],
        *,
        ignoring: bool,
    ) -> None:
        self._columns = columns
        self._named = {name: ".".join(path) for name, path in paths.items()}
        wanted = {path: name for name, path in paths.items()}
        unknown = unknown_field(record, wanted)
        self.extra = unknown is not None
        if self.extra and not ignoring:
            raise UnreadableError(
                "unknown_field",
                f"field {unknown!r} is not declared; declared are {', '.join(self._named.values())}",
            )
        for name, kind in columns.items():
            _require(record, paths[name], kind, self._named[name])
        self._read = nested_reader(record, wanted, columns)

    def read(self, cursor: Cursor, rows: Ints) -> Columns:
        """Read records to their ends.

        Args:
            cursor: stands at the first field of each record.
            rows: the positions of the records there, ascending.
        """
        found = self.values(cursor, rows)
        cursor.finish(rows)
        return self.judged(found, cursor.malformed[rows])

    def values(self, cursor: Cursor, rows: Ints) -> dict[str, Values]:
        """Read records up to the end of the type, behind which there may be more; return their columns."""
        return self._read(cursor, rows)

    def judged(self, found: Mapping[str, Values], malformed: Bools) -> Columns:
        """Return the columns of records, and the defects of these.

        Args:
            found: what `values` returned.
            malformed: a mask of the records that are malformed.
        """
        defects = self._defects(malformed, found)
        sound = np.ones(len(malformed), bool)
        sound[[at for at, _, _ in defects]] = False
        arrays = [
            found[name].array if name in found else pa.nulls(len(malformed), kind.arrow)
            for name, kind in self._columns.items()
        ]
        return Columns(pa.record_batch(arrays, names=list(self._columns)), sound, defects)

    def _defects(self, malformed: Bools, found: Mapping[str, Values]) -> list[tuple[int, str, str]]:
        """Return the first defect of each defective record, in the order in which reasons count."""
        kinds, named = self._columns, self._named
        marked = [(malformed, "malformed", "the bytes are no value of it, or others stand behind the value")]
        marked += [
            (each.garbled, "not_utf8", f"the text of field {named[name]!r} is not UTF-8")
            for name, each in found.items()
        ]
        marked += [
            (mask(pc.is_null(found[name].array)), "missing_field", f"field {named[name]!r} is null")
            for name, kind in kinds.items()
            if name in found and not kind.nullable and found[name].array.null_count
        ]
        marked += [
            (
                each.bad,
                "bad_value",
                f"the value of field {named[name]!r} is out of the range of {kinds[name]}",
            )
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
    return Layout(record, {_TEXT: ColumnType.STRING}, {_TEXT: (_TEXT,)}, ignoring=True)


def _require(written: AvroType, path: Path, kind: ColumnType, name: str) -> None:
    """Refuse a type that does not give a column. A null gives null, wherever it stands.

    Args:
        written: the type; each branch of a union must give the column.
        path: the names of the fields in it that lead to the column.
        kind: the type of the column.
        name: the name of the column's field, for errors.

    Raises:
        UnreadableError: the type does not give the column.
    """
    if not path:
        if reader_of(written, kind) is None:
            raise UnreadableError(
                "wrong_type", f"field {name!r} must be readable as {kind}, but is {written}"
            )
    elif written.kind == "union":
        for branch in written.inner:
            _require(branch, path, kind, name)
    elif written.kind == "record":
        field = dict(zip(member_names(written, path[:1]), written.fields, strict=True)).get(path[0])
        if field is not None:
            _require(field.type, path[1:], kind, name)
        elif not kind.nullable:
            raise UnreadableError("missing_field", f"the schema has no field {name!r}")
    elif written.kind != "null":
        raise UnreadableError("wrong_type", f"field {name!r} must be in a record, but that is {written}")
