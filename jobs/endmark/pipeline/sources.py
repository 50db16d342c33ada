"""The sources of rows in a pipeline file: streams and relations."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from endmark.domain import Domain
from endmark.pipeline.change_rules import AtRestart, Change, ChangeRule, Knob, Pinned
from endmark.pipeline.fields import (
    AnyNames,
    Columns,
    Count,
    Duration,
    Expression,
    Model,
    Name,
    Names,
    Part,
    Share,
    Size,
    TableColumns,
    Topic,
    require_column,
    require_key_column,
    require_present,
)
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.record_parts import Origin, RecordPart, require_parts
from endmark.types import ColumnType, Direction

if TYPE_CHECKING:
    from collections.abc import Collection

    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]

COORDINATES = ("kafka_partition", "kafka_offset")


class EventTime(Model):
    """The column of event time, and the bounds of its values.

    A row may be at most `lateness` older than the newest row of its partition, and not as old as a heartbeat
    before it. Rows and heartbeats may be at most `ahead` after their record's timestamp in Kafka; `null`
    allows any event time. A partition without records for
    longer than `idle`, while other partitions of its topic have some, does not hold progress back.
    """

    column: Pinned[Name]
    lateness: Annotated[
        Duration,
        ChangeRule(
            change=Change.NEW_CHECKPOINT,
            remark="rows are checked against it where they are read, before a turn is known",
        ),
    ] = timedelta(0)
    ahead: Pinned[Duration | None] = timedelta(hours=1)
    idle: Annotated[
        Duration | None,
        Knob(
            "duration",
            "such as 30s, up to 36500d, of a stream that has it in the file",
            "The time without records after which a partition is not waited for, while others have records.",
            change=Change.TURN,
            remark="for a stream that has one; adding or removing it takes a new checkpoint",
        ),
    ] = None


class ClosingRule(Model):
    """A rule by which rows close values.

    `when` is an SQL condition over the stream's columns. A row that meets it is the last row with its values
    in the columns `on`.
    """

    on: Pinned[Names]
    when: Pinned[Expression]


class Quarantine(Model):
    """The limit of unreadable records, beyond which the job stops.

    The job stops when more than `share` of a stream's last `of` records are dead letters that it could not
    read. Then the producer is wrong, and not a single record.
    """

    share: AtRestart[Share] = 0.2
    of: AtRestart[Count] = 1_000


class Stream(Model):
    """A Kafka topic of records in JSON, XML, Avro or Protobuf, or in Debezium's envelopes.

    Each row has exactly the declared `columns`. A column whose type ends with `?` may be missing or null, and
    all others have a value. A record with other members is a dead letter, unless `extra: ignore` leaves them
    out. Records spell a `timestamp(s)`, `timestamp(ms)`, `timestamp(us)` or `date(days)` as a number since
    1970; the values are a `timestamp` or a `date`. An `int` or a `float` is a long or a double in the range
    of 32 bits.

    With `format: debezium` or `debezium_avro` each snapshot row and each inserted row of the captured table
    is a row. An update is a row under `updates: rows`, and a dead letter otherwise. A deletion removes the
    row of its key from a table of `mode: upsert`. It closes the key only under `punctuated_on`, which then is
    the table's primary key: leave it out if a deleted key may be inserted again.

    Punctuations restrict columns of `punctuated_on`, which may be any columns of the stream. A stream without
    `punctuated_on` takes no punctuations but heartbeats. Punctuations close keys if `punctuated_on` has the
    whole join key. A punctuation that names a key closes it, since the topic is partitioned by the key. If
    the topic is not, `punctuation_scope: topic` closes a key once every partition has promised it.

    A heartbeat is a punctuation on the column of event time alone, which need not be in `punctuated_on`. It
    promises that its partition has no more rows up to a time, and so advances progress. With
    `format: debezium` there are none.

    A row with a null in the join key is not joined: it is a violation `null`. A column on which the stream
    promises something is not nullable.

    Rows can close keys, too. Declare `ordered` if the rows of each partition come in the order of the join
    key: each row then closes the keys before its own. Declare `unique` if no partition has two rows of a key:
    each row then closes its own key. Declare `clustered` if the rows of a key stand together in each
    partition: the first row of another key then closes it. Declare `closes` if a condition on a row says that
    it is the last row of its values: the row then acts as a punctuation behind itself.

    Closed keys are remembered for ever by default. With `forget_keys_after`, punctuations and rows that name
    a key close it for this time alone, in event time: a key that comes later is a new key. The time is at
    least the stream's window. It needs a join in which all streams have a window, and in which no other
    stream's rows are results without a partner. The rows of this join may not go on into a stage on the same
    key.

    With `format: avro` or `debezium_avro`, each record has the id of its schema in the section `registry`. A
    stream whose records have no id names a file with their schema, `schema_file`. The fields of a schema
    become columns by their names, or else by an alias.

    A column is the member of its name, unless `taken_from` names another part of the Kafka record.
    `value.order.id` is a member of an object in the value, and `key.id` one of a key in JSON. `key` is the
    whole key as text, `header.tenant` the last header of this name, and `timestamp` Kafka's time of the
    record. Texts of keys and headers are UTF-8 and spell values as JSON does, but without quotes. A missing
    part is null.

    An XML record of more than `max_record` bytes is a dead letter, since reading one takes two seconds a MB.
    The job stops when dead letters exceed a share of the last records, as `quarantine` says; `off` never
    stops it.
    """

    topic: Pinned[Topic]
    format: Pinned[
        Annotated[
            FormatName,
            Field(description="\n".join(f"`{name}`: {each.doc}" for name, each in FORMATS.items())),
        ]
    ] = "json"
    max_record: Pinned[Annotated[Size, Field(le=1_000_000)]] = 65_536
    schema_file: Pinned[Path | None] = None
    quarantine: AtRestart[Quarantine | Literal["off"]] = Quarantine()
    updates: Pinned[Literal["dead_letter", "rows"]] = "dead_letter"
    columns: Annotated[
        Columns,
        ChangeRule(
            change=Change.NEW_CHECKPOINT,
            remark="a column that no step names may become optional (`?`), or be new and optional, at a "
            "restart",
        ),
    ]
    taken_from: Annotated[
        dict[Name, Part],
        Field(default_factory=dict),
        ChangeRule(change=Change.NEW_CHECKPOINT, remark="that of a new column comes with the column"),
    ]
    extra: Pinned[Literal["dead_letter", "ignore"]] = "dead_letter"
    event_time: Pinned[EventTime]
    punctuated_on: Pinned[AnyNames] = ()
    punctuation_scope: Pinned[Literal["partition", "topic"]] = "partition"
    ordered: Pinned[Annotated[dict[Name, Direction], Field(default_factory=dict, max_length=1)]]
    unique: Pinned[AnyNames] = ()
    clustered: Pinned[AnyNames] = ()
    closes: Pinned[ClosingRule | None] = None
    forget_keys_after: AtRestart[Duration | None] = None

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        own = FORMATS[self.format].own_fields
        others = (field for each in FORMATS.values() for field in each.own_fields.items())
        for name, why in others:
            if name not in own and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: {why}; leave it out, or set the format")
        for name in self.taken_from:
            require_column(self.columns, name, "taken_from")
        require_parts(self.columns, self.parts)
        self._check_format()
        time = self.event_time.column
        require_column(self.value_types, time, "event_time.column", ColumnType.TIMESTAMP)
        require_present(self.columns, time, "event_time.column", "a row without event time belongs nowhere")
        promised = {
            "punctuated_on": self.punctuated_on,
            "ordered": tuple(self.ordered),
            "unique": self.unique,
            "clustered": self.clustered,
            "closes.on": self.closes.on if self.closes else (),
        }
        for field, promised_on in promised.items():
            for name in promised_on:
                require_present(self.columns, name, field, "no promise speaks of null")
        for name in COORDINATES:
            if name in self.columns:
                raise ValueError(f"columns.{name}: this name is taken by the record's coordinates")
        return self

    def _check_format(self) -> None:
        """Refuse members of a value that its format cannot have or read."""
        for name, part in self.taken_from.items():
            if part.origin is Origin.VALUE and not FORMATS[self.format].members:
                raise ValueError(
                    f"taken_from.{name}: a value in `format: {self.format}` has no members by path; declare "
                    "the column by its name there, or take it from the key, a header or the timestamp"
                )
        if (refuse := FORMATS[self.format].refuse_unreadable) is not None:
            refuse(self)

    @property
    def parts(self) -> dict[str, RecordPart]:
        """The part of a Kafka record that each column is taken from."""
        return {name: self.taken_from.get(name) or RecordPart(Origin.VALUE, (name,)) for name in self.columns}

    @property
    def value_paths(self) -> dict[str, tuple[str, ...]]:
        """For each column that is taken from a record's value, the nested members that lead to it."""
        return {name: part.path for name, part in self.parts.items() if part.origin is Origin.VALUE}

    @property
    def heartbeat_on(self) -> str | None:
        """The column that heartbeats restrict, which is that of event time; `None` if the format has none."""
        return self.event_time.column if FORMATS[self.format].heartbeats else None

    @property
    def value_types(self) -> dict[str, ColumnType]:
        """The types of the columns in rows, whatever spelling records have."""
        return {name: kind.of_values for name, kind in self.columns.items()}

    @property
    def promised_on(self) -> tuple[str, ...]:
        """The columns that the stream's punctuations restrict, including those of its closing rule."""
        return tuple(dict.fromkeys([*self.punctuated_on, *(self.closes.on if self.closes else ())]))

    def restricted(self, among: Collection[str]) -> tuple[str, ...]:
        """Return those of some columns that punctuations restrict, or else rows by the closing rule."""
        found = tuple(column for column in self.punctuated_on if column in among)
        if self.closes and set(self.closes.on) <= set(among):
            return found or self.closes.on
        return found

    def could_be_keys(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns that may be of a key: not the event time, and no double."""
        return tuple(
            name
            for name in columns
            if name != self.event_time.column and self.columns[name].domain is not Domain.DOUBLE
        )


class Relation(Model):
    """The master table R of a lookup join, reached by an SQLAlchemy URL.

    `table` is a table with an index that begins with the columns of `key`, or a view. A view is read by lists
    of keys alone, and so is a key with a text column in MySQL or MariaDB whose collation does not compare
    bytes. If the database does not answer, the job asks again for the time `retry`, and then stops.
    """

    url: AtRestart[str]
    table: AtRestart[Name]
    key: Pinned[Names]
    columns: Pinned[TableColumns]
    retry: AtRestart[Duration] = timedelta(minutes=1)

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        for name in self.key:
            require_key_column(self.columns, name, "key")
        return self
