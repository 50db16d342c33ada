"""Searches in the table of dead letters, newest first, a page at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from endmark.errors import ConfigError
from endmark.pipeline.tables import OWNER
from endmark.storage import delta_table, reaching

if TYPE_CHECKING:
    from endmark.storage import Location

_COLUMNS = 'topic, "partition", "offset", reason, error'


class OthersError(ConfigError):
    """A table has the dead letters of another checkpoint."""


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of a record in Kafka, written `topic/partition/offset`."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read coordinates in the form that `str` gives them.

        Raises:
            ConfigError: the text has another form.
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
    """A record that could not be read or had no match.

    Args:
        at: the coordinates of the record.
        reason: the kind of error, such as `no_match`.
        error: the error in words.
        value: the value of the record in Kafka; `None` is a tombstone.
    """

    at: Coordinates
    reason: str
    error: str
    value: bytes | None

    @property
    def text(self) -> str | None:
        """The value as text; `None` if it is a tombstone or not UTF-8."""
        try:
            return None if self.value is None else self.value.decode()
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True)
class Search:
    """The conditions of a search; a dead letter is found if it meets all of them. `None` is no condition.

    Args:
        topic: the topic of the record.
        reason: the kind of error.
        text: a part of the value or of the error, without regard to case. It is never found in a value that
            is not UTF-8.
    """

    topic: str | None = None
    reason: str | None = None
    text: str | None = None


def dead_letters(
    table: Location,
    search: Search,
    limit: int,
    after: Coordinates | None = None,
    most: int | None = None,
    owner: str | None = None,
) -> list[DeadLetter]:
    """Return the newest dead letters that meet the conditions, greater offsets first.

    The result is empty if the table does not exist.

    Args:
        table: the directory of the table.
        search: the conditions.
        limit: the most dead letters to return.
        after: the last dead letter of the page before; `None` for the first page.
        most: the most characters of a value. Of one that is not UTF-8, all bytes are returned.
        owner: the id of the checkpoint whose dead letters are wanted; `None`: of any.

    Raises:
        OthersError: the table is another checkpoint's.
    """
    conditions = []
    for column, wanted in (("topic", search.topic), ("reason", search.reason)):
        if wanted is not None:
            conditions.append(f"{column} = {_quoted(wanted)}")
    if search.text is not None:
        # The cast of a value that is not UTF-8 is null, so nothing is found in it.
        searched = "concat(coalesce(error, ''), ' ', coalesce(try_cast(value AS varchar), ''))"
        conditions.append(f"strpos(lower({searched}), lower({_quoted(search.text)})) > 0")
    if after is not None:
        topic = _quoted(after.topic)
        next_to = f'topic > {topic} OR topic = {topic} AND "partition" > {after.partition}'
        conditions.append(f'("offset" < {after.offset} OR "offset" = {after.offset} AND ({next_to}))')
    value = "value"
    if most is not None:  # 200 values of a megabyte took 548 MB of the sidecar, which compose gives 512
        text = f"left(try_cast(value AS varchar), {most})"
        value = f"coalesce(arrow_cast({text}, 'BinaryView'), value)"
    rest = f'ORDER BY "offset" DESC, topic, "partition" LIMIT {limit}'
    return _select(table, owner, value, conditions, rest)


def dead_letter(table: Location, at: Coordinates, owner: str | None = None) -> DeadLetter:
    """Return the dead letter at some coordinates.

    Args:
        table: the directory of the table.
        at: the coordinates.
        owner: the id of the checkpoint whose dead letter is wanted; `None`: of any.

    Raises:
        OthersError: the table is another checkpoint's.
        ConfigError: the table has no dead letter there.
    """
    conditions = [f"topic = {_quoted(at.topic)}", f'"partition" = {at.partition}', f'"offset" = {at.offset}']
    if not (found := _select(table, owner, "value", conditions, "LIMIT 1")):
        raise ConfigError(f"no dead letter is of {at}; list those that there are")
    return found[0]


def _select(
    table: Location, owner: str | None, value: str, conditions: list[str], rest: str
) -> list[DeadLetter]:
    # This import is heavy, and the sidecar starts without it.
    from deltalake import QueryBuilder

    if (stored := delta_table(table)) is None:
        return []
    written_by = stored.metadata().configuration.get(OWNER)
    if owner is not None and written_by not in (owner, None):
        raise OthersError(f"table {table} is written from checkpoint {written_by}, not from {owner}")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    query = f"SELECT {_COLUMNS}, {value} FROM letters {where} {rest}"  # noqa: S608  # values are quoted, the rest is ours
    with reaching(table):
        rows: Any = QueryBuilder().register("letters", stored).execute(query).read_all()
    columns = [column.to_pylist() for column in rows.columns]
    return [DeadLetter(Coordinates(*row[:3]), *row[3:]) for row in zip(*columns, strict=True)]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _is_number(text: str, bits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**bits
