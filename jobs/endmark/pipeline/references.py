"""The columns that fields of a pipeline file name, such as `orders.total`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.pipeline.model import Pipeline
    from endmark.types import ColumnType


class References:
    """The columns that results may have, by the names that fields of the file have for them.

    Args:
        pipeline: the pipeline.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    @cached_property
    def origins(self) -> Mapping[str, Mapping[str, ColumnType]]:
        """The columns that results may have, by the stream, relation or join that they come from."""
        members = {name for members in self._pipeline.flow.unions.values() for name in members}
        inputs = [name for name in self._pipeline.inputs if name not in members]
        found = {name: self._pipeline.stage_of(name).columns.origins_behind(name)[name] for name in inputs}
        found |= {name: dict(relation.columns) for name, relation in self._pipeline.relations.items()}
        found |= {
            str(stage.steps.join): derived
            for stage in self._pipeline.stages
            if (derived := stage.columns.derived)
        }
        lost = {column for stage in self._pipeline.stages for column in stage.columns.lost}
        if not lost:
            return found
        return {
            origin: {name: kind for name, kind in columns.items() if self._asked(origin, name) not in lost}
            for origin, columns in found.items()
        }

    def resolved(self, reference: str) -> tuple[str, str]:
        """Return the stream or relation of a column, and its name.

        Args:
            reference: `stream.column`, `relation.column`, or `column` if only one of these has it.

        Raises:
            ValueError: none of them has such a column, or several have.
        """
        origin, dot, column = reference.partition(".")
        if dot:
            return origin, column
        found = [name for name, columns in self.origins.items() if reference in columns]
        if len(found) > 1:
            several = ", ".join(f"{name}.{reference}" for name in found)
            raise ValueError(f"{reference!r} may be one of {several}; write the one that is meant")
        if not found:
            there = ", ".join(f"{name}.{column}" for name, of in self.origins.items() for column in of)
            raise ValueError(f"no column {reference!r}; there are {there}")
        return found[0], reference

    def result_column(self, reference: str) -> str:
        """Return the column of results that a reference names, such as `customers_country`."""
        return "_".join(self.asked_column(reference))

    def asked_column(self, reference: str) -> tuple[str, str]:
        """Return the origin and name of a column, where the column that asked R stands for R's key.

        Args:
            reference: the column, named as in `resolved`.
        """
        return self._asked(*self.resolved(reference))

    def _asked(self, origin: str, column: str) -> tuple[str, str]:
        if origin in self._pipeline.relations and column in (key := self._pipeline.relations[origin].key):
            return self._pipeline.asked_by(self._pipeline.lookup_in(origin)).key[key.index(column)]
        return origin, column

    def type_of(self, reference: str) -> ColumnType:
        """Return the type of a column, named as in `resolved`."""
        origin, column = self.resolved(reference)
        return self.origins[origin][column].required
