"""Layouts of Avro records: how the fields of one writer's record become columns of a stream.

A layout is made once for each schema, and then reads the columns of many records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.types import ColumnType
from endmark.wire.avro.columns import reader_of
from endmark.wire.avro.members import member_names, nested_reader, unknown_field
from endmark.wire.json.shape import DELETED
from endmark.wire.judged_columns import judged
from endmark.wire.rejection import UnreadableError, undeclared_mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.state.search import Bools, Ints
    from endmark.wire.avro.cursor import Cursor
    from endmark.wire.avro.members import Path
    from endmark.wire.avro.schema import AvroType
    from endmark.wire.judged_columns import Columns
    from endmark.wire.values import Values

PUNCTUATION = "endmark.Punctuation"
_TEXT = "punctuation"


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
        members = member_names(record, [path[0] for path in wanted])
        if any(
            field.name == DELETED and member is None
            for field, member in zip(record.fields, members, strict=True)
        ):
            raise undeclared_mark()
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
        return judged(found, malformed, self._columns, self._named)


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
