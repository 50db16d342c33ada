"""The kinds of fields of a pipeline file: names, durations, column types, and their checks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo

from endmark.domain import Domain
from endmark.pipeline.duration_words import in_words
from endmark.pipeline.record_parts import PATTERN, RecordPart
from endmark.types import ColumnType, Spelling

PIPELINE_NAME = "[A-Za-z][A-Za-z0-9_-]{0,62}"  # the sidecar's paths and tokens have such names, too

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
# Digits are ASCII: `\d` would match the digits of every script.
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h|d)")
_SIZE = re.compile(r"([0-9]{1,18})\s*(kB|MB|GB)")
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_BYTES = {"kB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# For JSON Schema: the digits that may follow the point in a whole number of milliseconds, by unit.
_FRACTIONS = {
    "ms": "0{1,9}",
    "s": "[0-9]{1,3}0{0,6}",
    "m": "[0-9]{1,5}0{0,4}",
    "h": "[0-9]{1,7}0{0,2}",
    "d": "[0-9]{1,9}",
}
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST = timedelta(days=36_500)
_LONGEST_BATCH = timedelta(days=1)
_MOST_BYTES = 10**15
_TEXT_LENGTH = 10_000
_SHOWN = 60  # letters of a wrong value in an error
_PLAIN_TYPES = "|".join(domain.value for domain in Domain if domain is not Domain.DECIMAL)
_SPELLINGS = "|".join(map(re.escape, Spelling))


def _identifier(value: str) -> str:
    # We use `fullmatch`, since `$` also matches before a trailing newline, and names end up in SQL.
    if not _IDENTIFIER.fullmatch(value):
        but = "; it is part of names in SQL, so only the pipeline itself may have - in its name"
        raise ValueError(
            f"{_shown(value)} is not a name: letters, digits and _ only, starting with a letter"
            f"{but if re.fullmatch(PIPELINE_NAME, value) else ''}"
        )
    return value


def _pipeline_name(value: str) -> str:
    if not re.fullmatch(PIPELINE_NAME, value):
        raise ValueError(
            f"{_shown(value)} is no name of a pipeline: letters, digits, _ and - only, starting with a letter"
        )
    return value


def _reference(value: str) -> str:
    for part in value.split(".", 1):
        _identifier(part)
    return value


def _shown(value: Any) -> str:
    """A wrong value as an error shows it, in 60 letters at most."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _duration(value: Any) -> timedelta:
    """Read a duration from a text such as `500ms`, or from a number of seconds.

    Raises:
        ValueError: the value is no duration, or no whole number of milliseconds up to 36,500 days.
    """
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        milliseconds = Decimal(found[1]) * _UNITS[found[2]]
    elif _is_number(value):
        milliseconds = Decimal(repr(value)) * 1_000
    else:
        raise ValueError(f"{_shown(value)} is not a duration such as 500ms, 10s, 5m, 12h or 1d")
    if not 0 <= milliseconds <= _LONGEST // _MILLISECOND:
        raise ValueError(f"{_shown(value)} is not from 0 to {_in_days(_LONGEST)}, as durations are")
    if milliseconds != int(milliseconds):
        raise ValueError(f"{_shown(value)} is no whole number of milliseconds, as durations are")
    return timedelta(milliseconds=int(milliseconds))


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number. An int of 309 digits is one, though no float can hold it."""
    return math.isfinite(value) if isinstance(value, float) else type(value) is int


def _in_days(duration: timedelta) -> str:
    return f"{duration.days}d"


def _within(least: timedelta, most: timedelta) -> Callable[[timedelta], timedelta]:
    """Return a check that a duration is not shorter than `least` and not longer than `most`."""

    def check(duration: timedelta) -> timedelta:
        if not least <= duration <= most:
            shortest = f"{least // _MILLISECOND}ms"
            raise ValueError(f"{in_words(duration)} is not from {shortest} to {_in_days(most)}")
        return duration

    return check


def _duration_schema(least: timedelta, most: timedelta) -> dict[str, Any]:
    """JSON Schema of a duration: a text with a unit, or a number of seconds.

    A pattern cannot compare numbers. It only limits a text to as many digits as the longest duration has in
    its unit.
    """
    bounds = f"from {least // _MILLISECOND}ms to {_in_days(most)}, in whole milliseconds"
    number = {"type": "number", "minimum": least.total_seconds(), "maximum": most.total_seconds()}
    digits = {unit: len(str(most // _MILLISECOND // each)) for unit, each in _UNITS.items()}
    texts = [
        rf"0{{0,17}}[0-9]{{1,{digits[unit]}}}(\.{fraction})?\s*{unit}"
        for unit, fraction in _FRACTIONS.items()
    ]
    return {"anyOf": [_text_schema(texts), number], "description": bounds}


def _size_schema() -> dict[str, Any]:
    """JSON Schema of a size: a number of bytes, or a text with a unit."""
    zeros = {unit: len(str(_MOST_BYTES // factor)) - 1 for unit, factor in _BYTES.items()}
    texts = [rf"0{{0,17}}([0-9]{{1,{most}}}|10{{{most}}})\s*{unit}" for unit, most in zeros.items()]
    number = {"type": "integer", "minimum": 1, "maximum": _MOST_BYTES}
    return {"anyOf": [number, _text_schema(texts)], "description": f"from 1 to {_MOST_BYTES} bytes"}


def _text_schema(texts: list[str]) -> dict[str, Any]:
    return {"type": "string", "pattern": rf"^\s*({'|'.join(texts)})\s*$"}


def size(value: Any) -> Any:
    """Read a number of bytes from text such as `64MB`.

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip())
    if not found:
        raise ValueError(f"{_shown(value)} is not a size such as 500kB, 256MB or 2GB")
    return int(found[1]) * _BYTES[found[2]]


def _share(value: Any) -> Any:
    if isinstance(value, float):
        return value
    found = _SHARE.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found:
        raise ValueError(f"{_shown(value)} is not a share such as 20% or 0.5%")
    return float(found[1]) / 100


def _column_type(value: Any) -> ColumnType:
    return value if isinstance(value, ColumnType) else ColumnType.parse(str(value))


def _record_part(value: Any) -> RecordPart:
    return value if isinstance(value, RecordPart) else RecordPart.parse(str(value))


def _table_type(value: Any) -> ColumnType:
    kind = _column_type(value)
    if kind.nullable:
        raise ValueError(
            f"{kind} says nothing more than {kind.required}, since a table may have nulls in any column; "
            f"write {kind.required}"
        )
    if kind.spelling:
        raise ValueError(
            f"{kind} says how the records of a stream spell a value, and a table has no records; write "
            f"{kind.of_values}"
        )
    return kind


def _type_pattern(others: str = "", ending: str = "") -> str:
    """Return the pattern of types in JSON Schema.

    Args:
        others: patterns of further types, each behind a `|`.
        ending: the pattern of what may stand behind a type.
    """
    return rf"^({_PLAIN_TYPES}{others}|decimal\(\s*[0-9]+\s*,\s*[0-9]+\s*\)){ending}$"


def quoted(names: Sequence[str]) -> str:
    """Return names in quotes, for an error."""
    return ", ".join(map(repr, names))


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _all_different(names: tuple[str, ...]) -> tuple[str, ...]:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice!r} stands twice")
    return names


Name = Annotated[str, AfterValidator(_identifier)]
PipelineName = Annotated[str, AfterValidator(_pipeline_name)]
AnyNames = Annotated[
    tuple[Name, ...],
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
    AfterValidator(_all_different),
]
Names = Annotated[AnyNames, Field(min_length=1)]
# A column, alone or behind the name of the stream or relation that it comes from.
Reference = Annotated[str, AfterValidator(_reference)]
AnyReferences = Annotated[
    tuple[Reference, ...],
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
    AfterValidator(_all_different),
]
References = Annotated[AnyReferences, Field(min_length=1)]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    WithJsonSchema(_duration_schema(timedelta(0), _LONGEST)),
]
# A duration that is not 0.
Pause = Annotated[
    Duration,
    AfterValidator(_within(_MILLISECOND, _LONGEST)),
    WithJsonSchema(_duration_schema(_MILLISECOND, _LONGEST)),
]
# The time from the start of a batch to the start of the next.
Cadence = Annotated[
    Duration,
    AfterValidator(_within(timedelta(0), _LONGEST_BATCH)),
    WithJsonSchema(_duration_schema(timedelta(0), _LONGEST_BATCH)),
]
_Whole = Annotated[int, Field(strict=True)]  # `strict` refuses texts and booleans
Size = Annotated[
    _Whole,
    BeforeValidator(size),
    Field(ge=1, le=_MOST_BYTES),
    WithJsonSchema(_size_schema()),
]
Count = Annotated[_Whole, Field(ge=1, le=1_000_000)]
Attempts = Annotated[_Whole, Field(ge=2, le=1_000)]
Records = Annotated[_Whole, Field(ge=1, le=1_000_000_000)]
Expression = Annotated[str, Field(min_length=1, max_length=_TEXT_LENGTH)]
Share = Annotated[float, BeforeValidator(_share, json_schema_input_type=str | float), Field(ge=0, lt=1)]
Type = Annotated[
    ColumnType,
    PlainValidator(_column_type),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": _type_pattern(f"|{_SPELLINGS}", r"\??")}),
]
Columns = Annotated[dict[Name, Type], Field(min_length=1)]
Part = Annotated[
    RecordPart,
    PlainValidator(_record_part),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": PATTERN}),
]
# A type of a relation's column, which may be null anyhow.
_TableType = Annotated[
    ColumnType,
    PlainValidator(_table_type),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": _type_pattern()}),
]
TableColumns = Annotated[dict[Name, _TableType], Field(min_length=1)]


class Model(BaseModel):
    """A part of a pipeline file. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)


def fields_of(part: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a part by the names that a pipeline file has for them."""
    return {info.alias or name: info for name, info in part.model_fields.items()}


def require_name(known: Mapping[str, Any], name: str, field: str, where: str) -> None:
    """Refuse a name that is not among the known ones.

    Args:
        known: the known names, each with its value.
        name: the name to check.
        field: the field that has this name, for the error.
        where: the part of the file that declares the known names, for the error.

    Raises:
        ValueError: the name is not known.
    """
    if name not in known:
        raise ValueError(f"{field}: {name!r} is not one of {where}: {', '.join(known)}")


def require_key_column(columns: Mapping[str, ColumnType], name: str, field: str) -> None:
    """Refuse a key column that does not exist, or whose type cannot be a key.

    Args:
        columns: the types of the columns, by name.
        name: the name of the column.
        field: the field that names it, for the error.

    Raises:
        ValueError: there is no such column, or it is a double.
    """
    require_column(columns, name, field)
    if columns[name].domain is Domain.DOUBLE:
        raise ValueError(
            f"{field}: column {name!r} is double, and equal doubles are a matter of rounding; declare it "
            "long, string or decimal(18,2), derive such a column of it, or name another one"
        )


def require_present(columns: Mapping[str, ColumnType], name: str, field: str, why: str) -> None:
    """Refuse a column that does not exist, or that may be null.

    Args:
        columns: the types of the columns, by name.
        name: the name of the column.
        field: the field that names it, for the error.
        why: the reason why it must not be null, for the error.

    Raises:
        ValueError: there is no such column, or it is nullable.
    """
    require_column(columns, name, field)
    if columns[name].nullable:
        raise ValueError(
            f"{field}: column {name!r} is {columns[name]}, but {why}; declare it {columns[name].required}, "
            "so that a record without it is a dead letter"
        )


def require_column(
    columns: Mapping[str, ColumnType], name: str, field: str, kind: ColumnType | None = None
) -> None:
    """Refuse a column that does not exist, or that has another type.

    Args:
        columns: the types of the columns, by name.
        name: the name of the column.
        field: the field that names it, for the error.
        kind: the type that the column must have, nullable or not; `None` allows any type.

    Raises:
        ValueError: there is no such column, or it has another type.
    """
    if name not in columns:
        raise ValueError(f"{field}: no column {name!r}; there are {', '.join(columns)}")
    if kind is not None and columns[name].required != kind:
        raise ValueError(f"{field}: column {name!r} is {columns[name]}, but must be {kind}")
