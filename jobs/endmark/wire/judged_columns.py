"""Judges which records have a value of each column, and finds the reason why another one has none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.wire.json.reader import mask
from endmark.wire.json.records import MARK, JsonParser
from endmark.wire.merging import merged, repositioned
from endmark.wire.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.state.search import Bools, Ints
    from endmark.types import ColumnType
    from endmark.wire.json.records import Parsed
    from endmark.wire.record_spec import RecordSpec
    from endmark.wire.values import Values

_OPENING = f'{{"{MARK}": '.encode()


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


def judged(
    found: Mapping[str, Values],
    malformed: Bools,
    columns: Mapping[str, ColumnType],
    named: Mapping[str, str],
) -> Columns:
    """Return the columns of records, and the defects of these.

    Args:
        found: the values of columns; one that is missing here is null in each record.
        malformed: a mask of the records that are no values of their schema.
        columns: the types of all columns.
        named: the name of each column's field, for errors.
    """
    defects = _defects(malformed, found, columns, named)
    sound = np.ones(len(malformed), bool)
    sound[[at for at, _, _ in defects]] = False
    arrays = [
        found[name].array if name in found else pa.nulls(len(malformed), kind.arrow)
        for name, kind in columns.items()
    ]
    return Columns(pa.record_batch(arrays, names=list(columns)), sound, defects)


def _defects(
    malformed: Bools, found: Mapping[str, Values], kinds: Mapping[str, ColumnType], named: Mapping[str, str]
) -> list[tuple[int, str, str]]:
    """Return the first defect of each defective record, in the order in which reasons count."""
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
            f"field {named[name]!r} has a value that {kinds[name].required} cannot hold",
        )
        for name, each in found.items()
    ]
    defects: dict[int, tuple[str, str]] = {}
    for bad, reason, error in marked:
        for at in np.flatnonzero(bad).tolist():
            defects.setdefault(at, (reason, error))
    return [(at, *defect) for at, defect in sorted(defects.items())]


def sound_rows(none: Parsed, columns: Columns, *, extra: bool) -> Parsed:
    """Return the rows of columns that have a value in each, and rejections of the others.

    Args:
        none: what a parser of the stream finds among no records.
        columns: the columns.
        extra: whether the rows had fields that are no columns.
    """
    at = np.flatnonzero(columns.sound)
    rows = columns.batch.filter(pa.array(columns.sound))
    return replace(none, rows=rows, row_at=at, rejections=_rejections(columns), extra=len(at) if extra else 0)


def punctuations_in_json(records: RecordSpec) -> tuple[JsonParser, Parsed]:
    """Return the parser that `promised` needs, and what a parser of the stream finds among no records.

    Args:
        records: what the records of the stream may say.
    """
    parser = JsonParser(records.flat)
    return parser, parser.parse(pa.array([], pa.binary()))


def promised(none: Parsed, columns: Columns, punctuations: JsonParser) -> Parsed:
    """Return the punctuations of one column of texts, and rejections of the records without one.

    Args:
        none: what a parser of the stream finds among no records.
        columns: the column.
        punctuations: reads what follows the mark of a punctuation in JSON.
    """
    at, texts = np.flatnonzero(columns.sound), columns.batch.column(0).filter(pa.array(columns.sound))
    values = pc.binary_join_element_wise(_OPENING, texts.cast(pa.binary()), b"}", b"")
    found = repositioned(punctuations.parse(values), at)
    return merged([found, replace(none, rejections=_rejections(columns))])


def rejecting(none: Parsed, at: Ints, reason: str, error: str) -> Parsed:
    """Return the rejections of records at some positions, beside nothing else."""
    return replace(none, rejections=[Rejection(position, reason, error, None) for position in at.tolist()])


def _rejections(columns: Columns) -> list[Rejection]:
    return [Rejection(position, reason, error, None) for position, reason, error in columns.defects]
