"""Streams of which records spell some columns as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.types import ColumnType, Spelling

MARK = "$punctuation"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNITS = {
    Spelling.SECONDS: timedelta(seconds=1),
    Spelling.MILLISECONDS: timedelta(milliseconds=1),
    Spelling.MICROSECONDS: timedelta(microseconds=1),
}
# Spellings of any type in random pipelines. Their times have fractions of seconds, so none is in seconds.
_DRAWN = {
    "long": ["int"],
    "double": ["float"],
    "date": ["date(days)"],
    "timestamp": ["timestamp(ms)", "timestamp(us)"],
}


def with_types(pipeline: Pipeline, types: Mapping[str, Mapping[str, str]], **fields: Any) -> Pipeline:
    """The pipeline with other types of some columns, by stream; `fields` are those of all these streams."""
    document: dict[str, Any] = pipeline.model_dump(by_alias=True)
    for stream, changed in types.items():
        declared = document["streams"][stream]
        declared |= {"columns": declared["columns"] | changed, **fields}
    return Pipeline.model_validate(document)


@st.composite
def with_numbers(draw: st.DrawFn, pipeline: Pipeline) -> Pipeline:
    """The pipeline with any columns spelled as numbers, or none."""
    types: dict[str, dict[str, str]] = {}
    for stream, declared in pipeline.streams.items():
        changed = types.setdefault(stream, {})
        for name, kind in declared.columns.items():
            usual = str(kind.required)
            if (found := draw(st.sampled_from([usual, *_DRAWN.get(usual, [])]))) != usual:
                changed[name] = found + "?" * kind.nullable
    return with_types(pipeline, types)


def numbered(document: Mapping[str, Any], columns: Mapping[str, ColumnType]) -> dict[str, Any]:
    """A row or a punctuation in the usual spelling, respelled as its columns say."""
    if MARK not in document:
        return {name: _number(columns.get(name), value) for name, value in document.items()}
    patterns = {name: _pattern(columns.get(name), pattern) for name, pattern in document[MARK].items()}
    return {MARK: patterns}


def _pattern(kind: ColumnType | None, pattern: Mapping[str, Any]) -> dict[str, Any]:
    match pattern:
        case {"equals": value}:
            return {"equals": _number(kind, value)}
        case {"one_of": list(values)}:
            return {"one_of": [_number(kind, value) for value in values]}
        case {"between": dict(ends)}:
            return {"between": {end: _end(kind, end, value) for end, value in ends.items()}}
    return dict(pattern)


def _end(kind: ColumnType | None, end: str, value: Any) -> Any:
    return _number(kind, value) if end in ("from", "to") else value


def _number(kind: ColumnType | None, value: Any) -> Any:
    if kind is None or kind.spelling is None or not isinstance(value, str):
        return value
    if kind.spelling is Spelling.DAYS:
        return (date.fromisoformat(value) - _EPOCH.date()).days
    return (datetime.fromisoformat(value) - _EPOCH) // UNITS[kind.spelling]


# The least and the greatest number, written out by hand.
LIMITS = {
    "int": (-2147483648, 2147483647),
    "timestamp(s)": (-62135596800, 253402300799),
    "timestamp(ms)": (-62135596800000, 253402300799999),
    "timestamp(us)": (-62135596800000000, 253402300799999999),
    "date(days)": (-719162, 2932896),
}
