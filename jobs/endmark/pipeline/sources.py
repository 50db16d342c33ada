"""Sources of rows: streams and relations."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

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
    Share,
    Size,
    Topic,
    require_column,
    require_key_column,
)
from endmark.pipeline.formats import FORMATS
from endmark.types import ColumnType, Direction

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]

COORDINATES = ("kafka_partition", "kafka_offset")


class EventTime(Model):
    """The column of event time, and the time that a row may be older than the newest row of its partition.

    A row may be at most `ahead` after its record's timestamp in Kafka; `null` allows any event time. A
    partition without records for longer than `idle`, while others of its topic have some, does not hold
    progress back.
    """

    column: Pinned[Name]
    lateness: Annotated[
        Duration,
        ChangeRule(
            change=Change.NEW_CHECKPOINT,
            remark="rows are judged by it where they are read, before a turn is heard of",
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
            remark="of a stream that has it; whether one has, takes a new checkpoint",
        ),
    ] = None


class ClosingRule(Model):
    """A rule by which rows close values: a row that meets `when`, an SQL condition over the stream's columns,
    is the last one of its values in the columns `on`.
    """

    on: Pinned[Names]
    when: Pinned[Expression]


class Quarantine(Model):
    """The job stops when more than `share` of a stream's last `of` records are dead letters that it could not
    read: then the producer is wrong, and not a record."""

    share: AtRestart[Share] = 0.2
    of: AtRestart[Count] = 1_000


class Stream(Model):
    """A Kafka topic of records in JSON, in XML or in Debezium's envelopes. Each row holds exactly these
    columns; none may be null.

    Of a table that Debezium captures each row that was there or is inserted is one. An update is one as well
    if `updates` says so, and a dead letter otherwise. A deletion is a punctuation on `punctuated_on`, which
    is the table's primary key.

    Its punctuations restrict columns of `punctuated_on`, any of its own; without such columns it has none.
    They close keys if the whole join key is among these.
    One that names a key closes it, since the topic is partitioned by the key; where it is not,
    `punctuation_scope: topic` closes a key once every partition has promised it.
    Where rows come in the order of the join key in each partition, `ordered` says so: each row closes the
    keys before its own, as if a punctuation followed it. Where no partition has two rows of a key, `unique`
    says so: each row closes its own. Where none has two runs of rows of a key, `clustered` says so: the first
    row of another key closes it.
    Where a row can tell that it is the last, `closes` says by what: it acts as a punctuation behind itself.
    An XML record of more than `max_record` bytes is a dead letter, since reading one takes two seconds a MB.
    When more than a share of the last records are dead letters, `quarantine` stops the job; `off` never does.
    """

    topic: Pinned[Topic]
    format: Pinned[
        Annotated[
            FormatName,
            Field(description="\n".join(f"`{name}`: {each.doc}" for name, each in FORMATS.items())),
        ]
    ] = "json"
    max_record: Pinned[Annotated[Size, Field(le=1_000_000)]] = 65_536
    quarantine: AtRestart[Quarantine | Literal["off"]] = Quarantine()
    updates: Pinned[Literal["dead_letter", "rows"]] = "dead_letter"
    columns: Pinned[Columns]
    event_time: Pinned[EventTime]
    punctuated_on: Pinned[AnyNames] = ()
    punctuation_scope: Pinned[Literal["partition", "topic"]] = "partition"
    ordered: Pinned[Annotated[dict[Name, Direction], Field(default_factory=dict, max_length=1)]]
    unique: Pinned[AnyNames] = ()
    clustered: Pinned[AnyNames] = ()
    closes: Pinned[ClosingRule | None] = None

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        others = [each.own_fields for name, each in FORMATS.items() if name != self.format]
        for name, why in (field for fields in others for field in fields.items()):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: {why}; leave it out, or set the format")
        require_column(self.columns, self.event_time.column, "event_time.column", ColumnType.TIMESTAMP)
        for name in self.punctuated_on:
            require_column(self.columns, name, "punctuated_on")
        for name in self.closes.on if self.closes else ():
            require_column(self.columns, name, "closes.on")
        for name in COORDINATES:
            if name in self.columns:
                raise ValueError(f"columns.{name}: this name is taken by the record's coordinates")
        return self

    @property
    def promised_on(self) -> tuple[str, ...]:
        """The columns that its punctuations restrict, those of its closing rule among them."""
        return tuple(dict.fromkeys([*self.punctuated_on, *(self.closes.on if self.closes else ())]))


class Relation(Model):
    """The master table R of a lookup join, reached by an SQLAlchemy URL.

    A database that does not answer is asked again for `retry`; then the job stops.
    """

    url: AtRestart[str]
    table: AtRestart[Name]
    key: Pinned[Names]
    columns: Pinned[Columns]
    retry: AtRestart[Duration] = timedelta(minutes=1)

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        for name in self.key:
            require_key_column(self.columns, name, "key")
        return self
