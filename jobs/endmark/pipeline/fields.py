"""The kinds of field a pipeline file has: names, durations, column types, and what they are checked by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
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

from endmark.types import ColumnType, Kind

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SIZE = re.compile(r"(\d+)\s*(kB|MB|GB)")
_BYTES = {"kB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PLAIN_TYPES = "|".join(kind.value for kind in Kind if kind is not Kind.DECIMAL)
_TYPE_PATTERN = rf"^({_PLAIN_TYPES}|decimal\(\s*[0-9]+\s*,\s*[0-9]+\s*\))$"


def _identifier(value: str) -> str:
    # `fullmatch`, since `$` also matches before a trailing newline and names end up in SQL.
    if not _IDENTIFIER.fullmatch(value):
        raise ValueError(f"{value!r} is not a name: letters, digits and _ only, starting with a letter")
    return value


def _duration(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value.strip())
    if not found:
        raise ValueError(f"{value!r} is not a duration such as 500ms, 10s, 5m, 12h or 1d")
    return timedelta(seconds=float(found[1]) * _UNITS[found[2]])


def size(value: Any) -> Any:
    """Bytes, of text such as `64MB`.

    Raises:
        ValueError: the text is no size.
    """
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip())
    if not found:
        raise ValueError(f"{value!r} is not a size such as 500kB, 256MB or 2GB")
    return int(found[1]) * _BYTES[found[2]]


def _column_type(value: Any) -> ColumnType:
    return value if isinstance(value, ColumnType) else ColumnType.parse(str(value))


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _all_different(names: tuple[str, ...]) -> tuple[str, ...]:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice!r} stands twice")
    return names


Name = Annotated[str, AfterValidator(_identifier)]
AnyNames = Annotated[
    tuple[Name, ...],
    BeforeValidator(_listed, json_schema_input_type=str | list[str]),
    AfterValidator(_all_different),
]
Names = Annotated[AnyNames, Field(min_length=1)]
Topic = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
Duration = Annotated[timedelta, BeforeValidator(_duration), Field(ge=timedelta(0))]
Size = Annotated[int, BeforeValidator(size, json_schema_input_type=int | str), Field(ge=1)]
Type = Annotated[
    ColumnType,
    PlainValidator(_column_type),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": _TYPE_PATTERN}),
]
Columns = Annotated[dict[Name, Type], Field(min_length=1)]


class Model(BaseModel):
    """A part of a pipeline file; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def require_name(known: Mapping[str, Any], name: str, field: str, where: str) -> None:
    if name not in known:
        raise ValueError(f"{field}: {name!r} is not one of {where}: {', '.join(known)}")


def require_key_column(columns: Mapping[str, ColumnType], name: str, field: str) -> None:
    require_column(columns, name, field)
    if columns[name] == ColumnType.DOUBLE:
        raise ValueError(
            f"{field}: column {name!r} is double, and equal doubles are a matter of rounding; declare it "
            "long, string or decimal(18,2)"
        )


def require_column(
    columns: Mapping[str, ColumnType], name: str, field: str, kind: ColumnType | None = None
) -> None:
    if name not in columns:
        raise ValueError(f"{field}: no column {name!r}; there are {', '.join(columns)}")
    if kind is not None and columns[name] != kind:
        raise ValueError(f"{field}: column {name!r} is {columns[name]}, but must be {kind}")
