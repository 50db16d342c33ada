"""Guesses the steps of a pipeline: the lookups of its streams, and their join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.draft.members import renamed
from endmark.draft.streams import shared_key
from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.draft.relations import DraftRelation
    from endmark.draft.streams import DraftStream
    from endmark.types import ColumnType

WINDOW = "1d"


@dataclass(frozen=True)
class DraftLookup:
    """A lookup step.

    Args:
        name: the step's name.
        source: the stream or step whose rows are looked up.
        relation: the relation.
        key: the references to the columns by which it is asked.
    """

    name: str
    source: str
    relation: DraftRelation
    key: tuple[str, ...]


@dataclass(frozen=True)
class DraftJoin:
    """The join step of all streams.

    Args:
        name: the step's name.
        inputs: the last steps of the streams.
        on: the columns of the key.
    """

    name: str
    inputs: tuple[str, ...]
    on: tuple[str, ...]


@dataclass(frozen=True)
class DraftSteps:
    """The steps of a pipeline file.

    Args:
        lookups: the lookups of all streams, in order.
        join: the join; `None` for one stream.
        last: the last step, or the one stream of a pipeline without steps.
        unused: the relations that no stream has a key of.
    """

    lookups: tuple[DraftLookup, ...]
    join: DraftJoin | None
    last: str
    unused: tuple[DraftRelation, ...]


def guess_steps(
    streams: Sequence[DraftStream], relations: Sequence[DraftRelation], taken: set[str]
) -> DraftSteps:
    """Guess the steps of streams and relations.

    Args:
        streams: the streams.
        relations: the relations that may be looked up.
        taken: the names of streams and relations, to which those of the steps are added.

    Raises:
        ConfigError: the streams share no column to be joined on.
    """
    left, lookups, ends = list(relations), list[DraftLookup](), list[str]()
    for stream in streams:
        end, known = stream.name, {stream.name: stream.key_columns}
        while found := _next(known, left):
            relation, key = found
            left.remove(relation)
            step = DraftLookup(renamed(f"with_{relation.name}", taken), end, relation, key)
            known[relation.name] = relation.added
            lookups.append(step)
            end = step.name
        ends.append(end)
    if len(streams) == 1:
        return DraftSteps(tuple(lookups), None, ends[0], tuple(left))
    on = shared_key(streams)
    if not on:
        columns = "; ".join(f"{each.name}: {', '.join(each.key_columns)}" for each in streams)
        raise ConfigError(
            f"the streams share no column of one name and type to be joined on ({columns}); draft each by "
            "itself and put them into one file, where taken_from gives a column the name of another stream's"
        )
    join = DraftJoin(renamed("joined", taken), tuple(ends), on)
    return DraftSteps(tuple(lookups), join, join.name, tuple(left))


def _next(
    known: dict[str, dict[str, ColumnType]], relations: Sequence[DraftRelation]
) -> tuple[DraftRelation, tuple[str, ...]] | None:
    """Return a relation whose key rows have, and the references to the columns of that key.

    Args:
        known: the columns of the rows, by the stream or relation that they come from. A stream comes first.
        relations: the relations that are not yet looked up.
    """
    for origin, columns in known.items():
        for relation in relations:
            key = tuple(_column(relation, name, columns) for name in relation.key)
            if all(key) and relation.name not in known:
                return relation, tuple(_reference(known, origin, name or "") for name in key)
    return None


def _column(relation: DraftRelation, name: str, columns: dict[str, ColumnType]) -> str | None:
    """Return the column of rows that is probably a column of a relation's key; `None` if none is."""
    names = [name] if name != "id" else [f"{table}_id" for table in _singulars(relation.table)]
    return next((each for each in names if columns.get(each) == relation.columns[name]), None)


def _singulars(table: str) -> list[str]:
    """Return the words that a table's name may be the plural of, with the name itself."""
    endings = {"s": "", "es": "", "ies": "y"}
    return [table, *(table.removesuffix(end) + one for end, one in endings.items() if table.endswith(end))]


def _reference(known: dict[str, dict[str, ColumnType]], origin: str, name: str) -> str:
    alone = sum(name in columns for columns in known.values()) == 1
    return name if alone and origin == next(iter(known)) else f"{origin}.{name}"
