"""The dead-letter table as people read it: searched, newest first, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_COLUMNS = 'topic, "partition", "offset", reason, error, value'


@dataclass(frozen=True)
class Coordinates:
    """The place of a record in Kafka, written `topic/partition/offset`."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` writes.

        Raises:
            ConfigError: it is something else.
        """
        topic, _, rest = text.partition("/")
        partition, _, offset = rest.partition("/")
        if not (topic and _is_number(partition, 31) and _is_number(offset, 63)):
            raise ConfigError(
                f"{text!r} is no place of a record; write topic/partition/offset, as in bids/0/17"
            )
        return cls(topic, int(partition), int(offset))

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True)
class DeadLetter:
    """A record that could not be read, or had no match; `value` is what Kafka has, `None` a tombstone."""

    at: Coordinates
    reason: str
    error: str
    value: bytes | None

    @property
    def text(self) -> str | None:
        """The value, if it is text."""
        try:
            return None if self.value is None else self.value.decode()
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True)
class Search:
    """The conditions of a search for dead letters; a dead letter meets all that are given.

    `text` is looked for in value and error, whatever its capitals. A value that is no text contains no text.
    """

    topic: str | None = None
    reason: str | None = None
    text: str | None = None


def dead_letters(
    table: Path, search: Search, limit: int, after: Coordinates | None = None
) -> list[DeadLetter]:
    """Return the newest dead letters that a search finds, greater offsets first.

    A table that does not exist has none.

    Args:
        table: the directory of the table.
        search: the conditions.
        limit: the most dead letters to return.
        after: the last one of the page before; `None` for the first page.
    """
    conditions = []
    for column, wanted in (("topic", search.topic), ("reason", search.reason)):
        if wanted is not None:
            conditions.append(f"{column} = {_quoted(wanted)}")
    if search.text is not None:
        # What is no text is null, in which nothing is found.
        searched = "concat(coalesce(error, ''), ' ', coalesce(try_cast(value AS varchar), ''))"
        conditions.append(f"strpos(lower({searched}), lower({_quoted(search.text)})) > 0")
    if after is not None:
        topic = _quoted(after.topic)
        next_to = f'topic > {topic} OR topic = {topic} AND "partition" > {after.partition}'
        conditions.append(f'("offset" < {after.offset} OR "offset" = {after.offset} AND ({next_to}))')
    return _select(table, conditions, f'ORDER BY "offset" DESC, topic, "partition" LIMIT {limit}')


def dead_letter(table: Path, at: Coordinates) -> DeadLetter:
    """Return the dead letter at some coordinates; `None` if there is none.

    Raises:
        ConfigError: there is none.
    """
    place = [f"topic = {_quoted(at.topic)}", f'"partition" = {at.partition}', f'"offset" = {at.offset}']
    if not (found := _select(table, place, "LIMIT 1")):
        raise ConfigError(f"no dead letter is of {at}; list those that there are")
    return found[0]


def _select(table: Path, conditions: list[str], rest: str) -> list[DeadLetter]:
    # A heavy import, and the sidecar starts without it.
    from deltalake import DeltaTable, QueryBuilder

    if not DeltaTable.is_deltatable(str(table)):
        return []
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    query = f"SELECT {_COLUMNS} FROM letters {where} {rest}"  # noqa: S608  # values are quoted, the rest is ours
    rows: Any = QueryBuilder().register("letters", DeltaTable(str(table))).execute(query).read_all()
    columns = [column.to_pylist() for column in rows.columns]
    return [DeadLetter(Coordinates(*row[:3]), *row[3:]) for row in zip(*columns, strict=True)]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _is_number(text: str, bits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**bits
