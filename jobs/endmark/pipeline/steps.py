"""The steps of a pipeline (rows, lookup, union, join, aggregate), and its batches, control and publishing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from endmark.domain import DECIMAL_DIGITS, Domain
from endmark.operators.lookup.strategies import Name as StrategyName
from endmark.operators.stream_join.presets import GOALS, Goal, Policy, Preset, policy
from endmark.pipeline.change_rules import AtRestart, Change, ChangeRule, Knob, Pinned
from endmark.pipeline.fields import (
    AnyNames,
    AnyReferences,
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
    Reference,
    References,
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
    """The cache of a relation's rows in each Python process of the job. It keeps the rows asked for most.

    A cached row is used for `lifetime`, so results may show the relation as it was that long ago. A key that
    the relation did not have counts as absent for `absent_lifetime`. Keys asked for often are read again in
    the last quarter of their lifetime, each at a time of its own. A punctuation of the stream that names a
    looked-up key evicts it.
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
    """The rule for parked rows.

    The relation is asked `attempts` times in all, `delay` apart. A row without a match even then has the fate
    `then`.
    """

    delay: AtRestart[Pause]
    attempts: AtRestart[Attempts]
    then: Pinned[Fate] = "drop"


class Parking(Model):
    """The choice that rows without a match wait, since the relation may get one."""

    park: Pinned[Park]


Miss = Annotated[
    Annotated[Fate, Tag("[word]")] | Annotated[Parking, Tag("[park]")],
    Discriminator(lambda value: "[word]" if isinstance(value, str) else "[park]"),
]


class AsOf(Model):
    """The columns by which a row picks one of a key's versions.

    A version is valid from the time in the relation's column `relation` on. A row meets the newest version
    that is not newer than the time in the column `stream`, which is named as in `key`. A row that is older
    than all versions meets none.
    """

    stream: Pinned[Reference]
    relation: Pinned[Name]


class Lookup(Model):
    """The join of rows with a relation.

    `key` has a column of the rows for each column of the relation's key, in the same order and of the same
    type. It may be a column of a relation that an earlier step has looked up: `customers.country`, or the
    column alone if only one has it.

    `strategy` says what is read next: pages of `page_rows` rows, lists of keys, or all of the relation;
    `auto` takes the cheapest by measured costs. A relation that is read by lists of keys alone needs `auto`,
    `batched` or `inlj`.

    A batch that is no pause (`batch.pause_below`) stops reading after `time_per_batch`. Rows without an
    answer wait in `memory`, which all buckets share, and hold back the records that came after them. When
    `memory` is full, the batch reads on.

    `miss` is the fate of rows without a match: `nulls` joins them with nulls for the relation's columns.
    Parked rows hold back the records that came after them, too. Under `cardinality: many_to_many` the
    relation may have several rows of a key, and each of them makes a row. Otherwise several rows of a key are
    an error, unless `as_of` picks one of them. With `autotune` the job turns `page_rows` and the memory of
    the cache by the measured costs of reads.
    """

    relation: Pinned[Name]
    key: Pinned[References]
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
            "The time for which a batch that is no pause reads the relation. Unanswered rows wait for the "
            "next batch.",
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
        """True if a row has at most one match."""
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
        """The fate of rows that have no match, not even after they were parked."""
        return self.miss.park.then if isinstance(self.miss, Parking) else self.miss


_WINDOW = ChangeRule(
    change=Change.NEW_CHECKPOINT,
    remark="keys have become final, and rows were freed, by the old window",
)


_OneWindow = Annotated[Duration | None, Tag("[one]")]
_Windows = Annotated[
    Annotated[dict[Name, Duration | None], Tag("[each]")] | _OneWindow,
    Discriminator(lambda value: "[each]" if isinstance(value, dict) else "[one]"),
]


class JoinStep(Model):
    """The join of streams on columns that all of them have. `join` names its inputs, the left one first.

    One input may be an earlier join, or a lookup of its rows. `on` may then name any column that one of that
    join's streams and relations has. If its rows have a null there, they are dropped.

    A join of more than two inputs is inner. A result has one row of each input. Every two of its rows are
    within their windows. A row is freed when no result with it can come any more.

    `window` is the event time for which a row of any input stays joinable, or names one for each input;
    `null` is for ever. `where` is an SQL condition that results must also meet, over columns named as in
    tables.
    `preset` says what frees state and when keys are announced; `auto` does all that the rest of the file
    allows. Each of the job's buckets purges after `purge_every` punctuations of a stream. With more than two
    inputs, only presets that announce what all inputs close let punctuations wait. Rows beyond
    `memory`, which all buckets share, are spilled: their meeting with later rows is put off. With `autotune`
    the job turns `purge_every` by the measured costs of purging and joining. `goal` chooses `purge_every` and
    `memory` where the file has none: most results a second, least memory, or earliest punctuations.
    """

    kind: ClassVar[Literal["join"]] = "join"
    inputs: Pinned[Annotated[AnyNames, Field(alias="join", min_length=2)]]
    on: Pinned[Names]
    type: Pinned[JoinType] = JoinType.INNER
    where: Pinned[Expression | None] = None
    window: Annotated[_Windows, _WINDOW] = None
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
            "The memory of all streams' rows, in all buckets. Rows beyond it meet later rows in a pause.",
        ),
    ] = None
    autotune: AtRestart[bool] = False

    @model_validator(mode="before")
    @classmethod
    def _follow_goal(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("goal") in list(Goal):
            return {**GOALS[Goal(given["goal"])], **given}
        return given

    @model_validator(mode="after")
    def _check_windows(self) -> Self:
        for name in self.window if isinstance(self.window, dict) else ():
            if name not in self.inputs:
                raise ValueError(f"window.{name}: {name!r} is not one of join: {', '.join(self.inputs)}")
        return self

    def window_of(self, name: str) -> timedelta | None:
        """Return the window of an input; `None` is for ever."""
        return self.window.get(name) if isinstance(self.window, dict) else self.window

    def policy(self, buckets: int = 1, *, field: str) -> Policy:
        """Return the policy of the preset for one bucket of `buckets`, which share the memory.

        Args:
            buckets: the number of buckets.
            field: the step's place in the pipeline file, for errors.

        Raises:
            ConfigError: a field is set that the preset has no use for.
        """
        return policy(
            self.preset,
            windowed=any(self.window_of(name) is not None for name in self.inputs),
            purge_every=self.purge_every,
            autotune=self.autotune,
            memory=None if self.memory is None else self.memory // buckets,
            goal=self.goal,
            inputs=len(self.inputs),
            prefix=f"{field}.",
        )


class Measure(Model):
    """One column of a closed group: the `count` of its results, or a function of one of their columns.

    The column is written `stream.column` or `relation.column`, or `column` if only one of these has it. Nulls
    are ignored: a group without a value has null, or 0 for `count_distinct`, or an empty array for `sorted`.
    While the group is open, `count_distinct` keeps each value once, and `sorted` with its number.
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
            ValueError: the function does not take a column of this type.
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
        case str() if value == "count":  # whatever is no text may have an equality of its own
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


def _not_of_all(by: Any) -> Any:
    if by == []:
        raise ValueError(
            "no column is named; for one group of all rows, derive a constant by a row step, such as "
            '{all: "1"}, and name it here'
        )
    return by


class Aggregate(Model):
    """The closing group-by over results: a group is emitted once, when nothing more can come for it.

    `by` names columns as measures do; a column of the join key is written without a stream. Groups by the
    join key are final when the key is. Groups by other columns are final when a stream has promised them by a
    pattern on these columns, or has ended. Groups by a time that a row step makes of a stream's event time,
    such as `date_trunc('minute', at)`, are final when progress is beyond it. If nothing makes groups final, a
    table of `mode: upsert` or `changes` has them so far, and so has a topic of `mode: changes`.

    The aggregate of an aggregate takes its final groups. It names columns as their table does.
    """

    by: Pinned[Annotated[References, BeforeValidator(_not_of_all)]]
    measures: Pinned[Annotated[dict[Name, _AnyForm], Field(min_length=1)]]


class Deduplicate(Model):
    """The rule by which rows are duplicates: those equal to an earlier one of their partition in `by`.

    The first row of each value of `by` passes, and later ones are dropped. With `within`, a row passes again
    if its event time is more than `within` after that of the last one that passed. `by` has all columns of
    the join key. A null in another column is a value of its own. Without `within`, values are remembered
    until the stream closes their key.
    """

    by: Pinned[Names]
    within: Pinned[Duration | None] = None


class RowStep(Model):
    """A step that filters the rows of a stream or join, derives and chooses columns, and drops duplicates.

    It applies its parts in this order: `where`, `derive`, `select` or `drop`, then `deduplicate`. `where` is
    an SQL condition; rows of which it is not true are filtered. `derive` has an SQL expression for each
    derived column. `select` names the columns to keep, `drop` those to lose. The event time, and columns on
    which the stream promises something, stay. A row on which an expression fails is a dead letter. Row steps
    stand in front of lookups, behind a lookup of a stream, or behind a join. Only the last one in front of a
    stream's lookups has `deduplicate`.

    Behind a lookup or a join, columns are named as in measures: `orders.total`, or `total` if only one
    stream, relation or join has it. So a step behind a lookup can replace the natural key of a row by the
    warehouse's key: it drops the column by which the lookup asked. Columns that are derived behind a join
    come from it, as `fulfilled.late`. Columns of the join's key stay, too. A result on which an expression
    fails is left out and counted.
    """

    kind: ClassVar[Literal["rows"]] = "rows"
    source: Pinned[Annotated[Name, Field(alias="from")]]
    where: Pinned[Expression | None] = None
    derive: Pinned[Annotated[dict[Name, Expression], Field(default_factory=dict)]]
    select: Pinned[AnyReferences] = ()
    drop: Pinned[AnyReferences] = ()
    deduplicate: Pinned[Deduplicate | None] = None

    @model_validator(mode="after")
    def _check_choice(self) -> Self:
        if self.select and self.drop:
            raise ValueError("drop: `select` names all columns that stay; leave one of the two out")
        return self

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one stream or step whose rows the step takes."""
        return (self.source,)


class LookupStep(Model):
    """A step that looks its rows up in a relation."""

    kind: ClassVar[Literal["lookup"]] = "lookup"
    source: Pinned[Annotated[Name, Field(alias="from")]]
    lookup: Lookup

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one stream or step whose rows are looked up."""
        return (self.source,)


class AggregateStep(Model):
    """A step that groups its rows."""

    kind: ClassVar[Literal["aggregate"]] = "aggregate"
    source: Pinned[Annotated[Name, Field(alias="from")]]
    aggregate: Aggregate

    @property
    def inputs(self) -> tuple[str, ...]:
        """The one stream or step whose rows are grouped."""
        return (self.source,)


class UnionStep(Model):
    """A step that makes one stream of several ones, such as the orders of a web shop and those of stores.

    `union` names its members: streams, or row steps of streams. Behind their row steps they have the same
    columns, of the same types. The event time has one name, too. The rows are those of the union from then
    on, and so are its columns: `merged.order_id`. Row steps directly behind the union run on the rows of each
    member.

    A promise holds for its own partition. So the union closes a key once all of its members have closed it.
    """

    kind: ClassVar[Literal["union"]] = "union"
    inputs: Pinned[Annotated[AnyNames, Field(alias="union", min_length=2)]]


_KINDS = ("lookup", "union", "join", "aggregate")
_OF_ROWS = ("where", "derive", "select", "drop", "deduplicate")


def _kind(step: Any) -> str | None:
    """Return the tag of a step: the one of its fields that says what the step does."""
    if isinstance(step, RowStep | LookupStep | UnionStep | JoinStep | AggregateStep):
        return f"[{step.kind}]"
    if not isinstance(step, dict):
        return None
    found = [kind for kind in _KINDS if kind in step]
    if not found and any(field in step for field in _OF_ROWS):
        return f"[{RowStep.kind}]"
    return f"[{found[0]}]" if len(found) == 1 else None


# Error messages leave out the tags in brackets.
Step = Annotated[
    Annotated[RowStep, Tag("[rows]")]
    | Annotated[LookupStep, Tag("[lookup]")]
    | Annotated[UnionStep, Tag("[union]")]
    | Annotated[JoinStep, Tag("[join]")]
    | Annotated[AggregateStep, Tag("[aggregate]")],
    Discriminator(
        _kind,
        custom_error_type="step",
        custom_error_message="a step has one of lookup, union, join and aggregate, or where, derive, select, "
        "drop or deduplicate",
    ),
]


class Control(Model):
    """The Kafka topic that brings instructions to the job and its operators.

    The job makes the topic on the broker of the streams. Its name is `<name of the pipeline>-control`, unless
    `topic` names another.
    """

    topic: Pinned[Topic | None] = None


class Batch(Model):
    """The size and frequency of batches.

    A batch reads `records` records at most, of all topics together. `every` is the least time from the start
    of one batch to the start of the next.

    A batch of fewer than `pause_below` records is a pause: it leaves no row waiting for a relation, and joins
    rows that are spilled. `null` stands for the most records that a batch may read.
    """

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
    pause_below: AtRestart[Records | None] = None


# The headers of a published record: the app id of the checkpoint, and the number of the batch.
CHECKPOINT_HEADER, BATCH_HEADER = "endmark-checkpoint", "endmark-batch"
PUBLISHING = ChangeRule(change=Change.RESTART, remark="another topic for each checkpoint")


class Publish(Model):
    """A Kafka topic of the same broker that gets the rows of a step, and the results' output punctuations.

    An aggregate has rows of two kinds. With `mode: append` the topic gets a record of each group when it is
    final. With `mode: changes` it gets one after each batch that had results of the group: the measures so
    far, and whether the record is the group's last one (`final`). The key of these records is the group key,
    so a topic with `cleanup.policy=compact` keeps the newest record of each group.

    The topic must exist. Kafka gets each batch at least once: a batch that is repeated after a crash is sent
    again. The headers of each record name its batch and checkpoint. A job may begin or cease to publish at
    any start; only the batches from then on are sent. A topic that lacks a batch or has records of others is
    refused.
    """

    topic: Annotated[Topic, PUBLISHING]
    mode: Annotated[Literal["append", "changes"], PUBLISHING] = "append"
