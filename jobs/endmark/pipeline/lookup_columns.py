"""The columns by which a lookup asks: those of its stream, or of a relation that an earlier lookup asked."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from endmark.pipeline.fields import require_column
from endmark.types import ColumnType

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.steps.lookup import Lookup


class Column(NamedTuple):
    """A column of a stream or of a relation.

    Args:
        origin: the name of the stream or of the relation.
        name: the name of the column there.
    """

    origin: str
    name: str

    @property
    def in_results(self) -> str:
        """The name of the column in results."""
        return f"{self.origin}_{self.name}"


@dataclass(frozen=True)
class LookupColumns:
    """The columns by which a lookup asks.

    Args:
        key: a column for each column of the relation's key, in the same order.
        time: the column of the time for which `as_of` picks a version; `None` without `as_of`.
    """

    key: tuple[Column, ...]
    time: Column | None

    @property
    def origins(self) -> set[str]:
        """The names of the stream and of the relations that the columns are of."""
        return {column.origin for column in (*self.key, *([] if self.time is None else [self.time]))}


def lookup_columns(pipeline: Pipeline, lookup: Lookup) -> LookupColumns:
    """Return the columns by which a lookup of a pipeline asks.

    Raises:
        ValueError: rows do not have such a column at that step, or it has another type than the relation's.
            The error names the field.
    """
    relation, lookup_field = pipeline.relations[lookup.relation], pipeline.field_of(lookup)
    kinds = [relation.columns[name] for name in relation.key]
    key = [
        _column(pipeline, lookup, reference, f"{lookup_field}.key", kind)
        for reference, kind in zip(lookup.key, kinds, strict=True)
    ]
    if lookup.as_of is None:
        return LookupColumns(tuple(key), None)
    field = f"{lookup_field}.as_of.stream"
    return LookupColumns(
        tuple(key), _column(pipeline, lookup, lookup.as_of.stream, field, ColumnType.TIMESTAMP)
    )


def _column(pipeline: Pipeline, lookup: Lookup, reference: str, field: str, kind: ColumnType) -> Column:
    """Return the column that a reference names: `origin.column`, or the column alone if one origin has it."""
    origins = _origins(pipeline, lookup)
    origin, dot, name = reference.rpartition(".")
    if not dot:
        found = [origin for origin, columns in origins.items() if name in columns]
        if len(found) > 1:
            several = ", ".join(f"{origin}.{name}" for origin in found)
            raise ValueError(f"{field}: {name!r} may be one of {several}; write the one that is meant")
        origin = found[0] if found else next(iter(origins))
    if origin not in origins:
        there = ", ".join(origins)
        later = origin != lookup.relation and pipeline.stream_of(origin) in origins
        what_to_do = f"look up {origin} before this step" if later else "name one of them"
        raise ValueError(f"{field}: rows have no columns of {origin!r} here, but of {there}; {what_to_do}")
    if origin in pipeline.relations and name in pipeline.relations[origin].key:
        raise ValueError(
            f"{field}: {reference!r} is in the key of {origin}, which rows do not repeat; name the column by "
            f"which {origin} was asked"
        )
    require_column(origins[origin], name, field, kind)
    return Column(origin, name)


def _origins(pipeline: Pipeline, lookup: Lookup) -> dict[str, dict[str, ColumnType]]:
    """Return the columns that rows have before a lookup, by the stream or relation that they come from."""
    given = pipeline.stream_of(lookup.relation)
    path, steps = pipeline.flow.paths[given], pipeline.steps
    before = list(takewhile(lambda name: getattr(steps[name], "lookup", None) is not lookup, path))
    return pipeline.stage_of(given).columns.origins_behind(given, before)
