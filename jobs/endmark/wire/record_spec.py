"""The specification of a stream's records, which the parsers of all wire formats take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.types import ColumnType
    from endmark.wire.json.shape import Path


@dataclass(frozen=True)
class RecordSpec:
    """The columns of a stream's records, and what its punctuations may restrict.

    Args:
        columns: all columns of the stream, which punctuations name.
        punctuated_on: the columns that punctuations may restrict; empty for a stream without punctuations.
        stream: the name of the stream, for errors.
        key: the columns of the key that a punctuation may name; `None` takes `punctuated_on`.
        heartbeat_on: the column that a heartbeat may restrict; `None` if the stream has no heartbeats.
        ignoring: whether a row may have other members, which are left out.
        paths: for each column of a row the names of the nested members that lead to it. Those that are not
            nullable have a value. `None`: a row has all columns, by their names.
    """

    columns: Mapping[str, ColumnType]
    punctuated_on: Sequence[str] = ()
    stream: str = "records"
    key: Sequence[str] | None = None
    heartbeat_on: str | None = None
    ignoring: bool = False
    paths: Mapping[str, Path] | None = None

    @property
    def value_paths(self) -> Mapping[str, Path]:
        """The names of the members that lead to each column of a row, outermost first."""
        return {name: (name,) for name in self.columns} if self.paths is None else self.paths

    @property
    def in_rows(self) -> dict[str, ColumnType]:
        """The types of the columns that a row has, by name."""
        return {name: self.columns[name] for name in self.value_paths}

    @property
    def named(self) -> dict[str, ColumnType]:
        """The types of the columns of the key that a punctuation may name; no null is among their values."""
        key = self.punctuated_on if self.key is None else self.key
        return {name: self.columns[name].required for name in key}

    @property
    def flat(self) -> RecordSpec:
        """The same records as flat objects, whose members have the names of columns."""
        return replace(self, paths={name: (name,) for name in self.value_paths})
