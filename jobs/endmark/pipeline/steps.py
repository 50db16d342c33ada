"""The steps of a pipeline: lookup, join, closing group-by, and the tables of their results."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from endmark.domain import DECIMAL_DIGITS, Domain
from endmark.operators.lookup.strategies import Name as StrategyName
from endmark.operators.stream_join.presets import GOALS, Goal, Policy, Preset, policy
from endmark.pipeline.change_rules import AtRestart, Change, ChangeRule, Knob, Pinned
from endmark.pipeline.fields import (
    Attempts,
    Cadence,
    Count,
    Duration,
    Expression,
    Model,
    Name,
    Names,
    Pause,
    Records,
    Size,
    Topic,
)
from endmark.pipeline.measures import FUNCTIONS
from endmark.types import ColumnType, JoinType

if TYPE_CHECKING:
    FunctionName = str
else:
    FunctionName = Literal[tuple(FUNCTIONS)]
_OF_A_COLUMN = ", ".join(name for name in FUNCTIONS if name != "count")
_FORMS = f"write `count`, or {{f: stream.column}} where f is {_OF_A_COLUMN}"
_ADDABLE_DIGITS = DECIMAL_DIGITS - 10  # no group has 10**10 results


class Cache(Model):
    """Rows of the relation that each Python process of the job keeps at hand, those asked for most.

    They, and keys the relation did not have, are believed for their lifetime, so results may show the
    relation as it was that long ago. Keys asked for often are read again in its last quarter, one sooner than
    the other. A punctuation of the stream that names what is looked up lets go of it.
    """

    memory: Annotated[
        Size,
        Knob(
            "size",
            "such as 64MB, up to 1000000GB; a number is bytes",
            "The memory of cached rows in each Python process. Less of it drops rows that are rarely "
            "asked for.",
        ),
    ] = 64_000_000
    lifetime: Annotated[
        Duration,
        Knob(
            "duration",
            "such as 30s or 5m, up to 36500d",
            "The time for which a cached row is used, and so the greatest age of the relation's rows in "
            "results.",
        ),
    ] = timedelta(minutes=5)
    absent_lifetime: Annotated[
        Duration,
        Knob(
            "duration",
            "such as 10s, up to 36500d",
            "The time for which a key that the relation did not have counts as absent.",
        ),
    ] = timedelta(seconds=10)


Fate = Literal["drop", "nulls", "dead_letter"]


class Park(Model):
    """The relation is asked `attempts` times in all for a row without a match, `delay` apart; what becomes of
    it `then` is as without parking."""

    delay: AtRestart[Pause]
    attempts: AtRestart[Attempts]
    then: Pinned[Fate] = "drop"


class Parking(Model):
    """Rows without a match wait, since the relation may get one."""

    park: Pinned[Park]


Miss = Annotated[
    Annotated[Fate, Tag("[word]")] | Annotated[Parking, Tag("[park]")],
    Discriminator(lambda value: "[word]" if isinstance(value, str) else "[park]"),
]


class AsOf(Model):
    """The relation holds versions of a key, each from the time in its column `relation` on. A row meets the
    one that held at the time in its column `stream`, and none if it is older than all."""

    stream: Pinned[Name]
    relation: Pinned[Name]


class Lookup(Model):
    """Join of a stream with a relation.

    `key` has a column of the stream for each column of the relation's key, in that order and of its type.
    `strategy` says what is read next: pages of `page_rows` rows, lists of keys or all of the relation; `auto`
    takes the cheapest, by what each has cost. A batch of as many records as a batch may have stops reading
    after `time_per_batch`. The rows it leaves wait in `memory`, which all buckets share, and hold back what
    came after them; when it is full, the batch reads on. `miss` is what becomes of rows without a match:
    `nulls` joins them with nulls for the relation's columns. Those that are parked hold back what came after
    them, too. Under `cardinality: many_to_many` the relation may hold several rows of a key, and each of them
    makes a row; else that is an error, unless `as_of` says which of them is meant. With `autotune` the job
    turns `page_rows` and the memory of the cache by what reads have cost.
    """

    stream: Pinned[Name]
    relation: Pinned[Name]
    key: Pinned[Names]
    cardinality: Pinned[Literal["many_to_one", "many_to_many"]] = "many_to_one"
    as_of: Pinned[AsOf | None] = None
    strategy: Annotated[
        StrategyName,
        Knob(
            "choice",
            "auto takes the cheapest by measured costs",
            "The way to read the relation: by pages, by lists of keys, or all of it.",
        ),
    ] = "auto"
    page_rows: Annotated[
        Count,
        Knob(
            "number",
            "1 to 1000000",
            "Rows of a page. Each Python process makes its page directory anew, by one short read for "
            "each page.",
        ),
    ] = 500
    time_per_batch: Annotated[
        Duration | None,
        Knob(
            "duration",
            "such as 500ms or 2s, up to 36500d; null: until all rows are answered",
            "The time for which a full batch reads the relation. Unanswered rows wait for the next batch.",
        ),
    ] = None
    memory: Annotated[
        Size,
        Knob(
            "size",
            "such as 64MB, up to 1000000GB; a number is bytes",
            "The memory of waiting rows, in all buckets. A batch that would leave more reads on.",
        ),
    ] = 64_000_000
    miss: Pinned[Miss] = "drop"
    cache: Annotated[Cache | None, ChangeRule(change=Change.RESTART, remark="whether there is one")] = None
    autotune: AtRestart[bool] = False

    @property
    def unique(self) -> bool:
        """True if a row has one match at most."""
        return self.cardinality == "many_to_one"

    @property
    def versions(self) -> str | None:
        """The relation's column by which versions of a key differ; `None` without versions."""
        return None if self.as_of is None else self.as_of.relation

    @property
    def park(self) -> Park | None:
        """The parking of rows without a match; `None` if they are not parked."""
        return self.miss.park if isinstance(self.miss, Parking) else None

    @property
    def fate(self) -> Fate:
        """The fate of rows that have no match in the end."""
        return self.miss.park.then if isinstance(self.miss, Parking) else self.miss


# The tags do not show in messages.
Lookups = Annotated[
    Annotated[Lookup, Tag("[one]")] | Annotated[tuple[Lookup, ...], Tag("[several]")],
    Discriminator(lambda value: "[several]" if isinstance(value, list | tuple) else "[one]"),
]


_WINDOW = ChangeRule(
    change=Change.NEW_CHECKPOINT,
    remark="keys are final, and rows gone, by what it was; which rows meet would hang on a batch",
)


class Window(Model):
    """The event time for which a row of either side stays joinable. `None` is for ever."""

    left: Annotated[Duration | None, _WINDOW] = None
    right: Annotated[Duration | None, _WINDOW] = None


class Join(Model):
    """Join of two streams on columns that both have.

    `where` is an SQL condition that pairs must also meet, over columns named as in the results table.
    `preset` says what frees state and when keys are announced; `auto` does all that the rest of the file
    allows. In each of the job's buckets, `purge_every` punctuations of a stream make a purge. Rows beyond
    `memory`, which all buckets share, are spilled: they meet what comes later, but in time. With `autotune`
    the job turns `purge_every` by what purging and joining have cost. `goal` chooses `purge_every` and
    `memory` where the file has none: most results a second, least memory, or earliest punctuations.
    """

    left: Pinned[Name]
    right: Pinned[Name]
    on: Pinned[Names]
    type: Pinned[JoinType] = JoinType.INNER
    where: Pinned[Expression | None] = None
    window: Annotated[Window, _WINDOW] = Window()
    preset: Pinned[Preset] = Preset.AUTO
    goal: AtRestart[Goal | None] = None
    purge_every: Annotated[
        Count,
        Knob(
            "number",
            "1 to 1000000; presets that purge with each punctuation take 1 alone",
            "The punctuations of a stream that wait until state is purged. More of them: less work, "
            "more state.",
        ),
    ] = 1
    memory: Annotated[
        Size | None,
        Knob(
            "size",
            "such as 256MB, up to 1000000GB; null: any number; presets that do not spill take null alone",
            "The memory of both streams' rows, in all buckets. Rows beyond it meet later rows in a pause.",
        ),
    ] = None
    autotune: AtRestart[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _follow_goal(cls, said: Any) -> Any:
        if isinstance(said, dict) and said.get("goal") in list(Goal):
            return {**GOALS[Goal(said["goal"])], **said}
        return said

    def policy(self, buckets: int = 1) -> Policy:
        """Return the policy of the preset for one of `buckets` buckets.

        Raises:
            ConfigError: the preset has no use for something that is set.
        """
        windowed = self.window != Window()
        return policy(
            self.preset,
            windowed=windowed,
            purge_every=self.purge_every,
            autotune=self.autotune,
            memory=None if self.memory is None else self.memory // buckets,
            goal=self.goal,
            prefix="join.",
        )


class Measure(Model):
    """One column of a closed group: the `count` of its results, or what a function says of a column of them.

    It is named `stream.column`, and its nulls have no part: a group without a value has null, 0 of
    `count_distinct`, or an empty array of `sorted`. These two keep each value once while the group is open.
    """

    function: Pinned[
        Annotated[
            FunctionName,
            Field(description="\n".join(f"`{name}`: {each.doc}" for name, each in FUNCTIONS.items())),
        ]
    ]
    column: Pinned[str | None] = None

    @model_validator(mode="after")
    def _check_column(self) -> Self:
        if (self.function == "count") != (self.column is None):
            raise ValueError(_FORMS)
        return self

    def kind(self, of: ColumnType) -> ColumnType:
        """Return the type of the measure, given the type of its column.

        Raises:
            ValueError: there is no such measure of that type.
        """
        function = FUNCTIONS[self.function]
        if function.adds and of.domain not in (Domain.LONG, Domain.DOUBLE, Domain.DECIMAL):
            raise ValueError(f"{self.column} is {of}, which does not add up; {self.function} takes numbers")
        if function.adds and of.precision > _ADDABLE_DIGITS:
            raise ValueError(
                f"{self.column} is {of}, whose sum could need more than {DECIMAL_DIGITS} digits; declare it "
                f"with at most {_ADDABLE_DIGITS}"
            )
        return function.result(of)


def _measure(value: Any) -> Any:
    match value:
        case "count":
            return {"function": "count"}
        case Measure() | {"function": _}:
            return value
        case dict() if len(value) == 1 and value.keys() <= FUNCTIONS.keys():
            ((function, column),) = value.items()
            return {"function": function, "column": column}
    raise ValueError(_FORMS)


_AnyForm = Annotated[
    Measure,
    BeforeValidator(_measure, json_schema_input_type=Measure | Literal["count"] | dict[FunctionName, str]),
]


class Aggregate(Model):
    """Closing group-by over the join's results: a group is emitted once, when its key is closed.

    With `running`, a table of its own gets a group's measures so far after each batch that had results of it,
    with the number of the `batch`, and at last, as `final`, those it is emitted with.
    """

    by: Pinned[Names]
    measures: Pinned[Annotated[dict[Name, _AnyForm], Field(min_length=1)]]
    running: Pinned[bool] = False


class Control(Model):
    """A Kafka topic of the same broker by which the job and its operators are told things, in order with what
    the streams bring. The job makes it, `<name of the pipeline>-control` unless it is named here.
    """

    topic: Pinned[Topic | None] = None


class Batch(Model):
    """A batch reads `records` at most, of all topics together; `every` is the least time from the start of
    one to the next."""

    records: Annotated[
        Records,
        Knob(
            "number",
            "1 to 1000000000",
            "The most records that a batch reads. The job starts its query again between two batches.",
        ),
    ] = 500_000
    every: Annotated[
        Cadence,
        Knob(
            "duration",
            "such as 500ms or 10s, up to 1d",
            "The least time between the starts of two batches. The job starts its query again between them.",
        ),
    ] = timedelta(seconds=1)


PUBLISHING = ChangeRule(change=Change.RESTART, remark="another topic for each checkpoint")


class Publish(Model):
    """A Kafka topic of the same broker that gets results and output punctuations, besides the tables.

    It must exist. Kafka gets a batch at least once: one that is repeated after a crash is sent again, and
    the headers of each record say which batch of which checkpoint it is of. A checkpoint may begin or cease
    to publish at any start of its job; only the batches from then on are sent.
    """

    topic: Annotated[Topic, PUBLISHING]


class Tables(Model):
    """Names of the Delta tables under the warehouse directory."""

    results: Pinned[Name] = "results"
    groups: Pinned[Name] = "groups"
    running: Pinned[Name] = "running"
    dead_letters: Pinned[Name] = "dead_letters"
    violations: Pinned[Name] = "violations"
    punctuations: Pinned[Name] = "punctuations"

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        tables = self.model_dump()
        if twice := next(
            (name for name, table in tables.items() if list(tables.values()).count(table) > 1), None
        ):
            raise ValueError(f"{twice}: {tables[twice]!r} is another table's name too; rename one")
        return self
