"""The closing group-by on a frame.

The frame is joined with a stream that has ended before its first row. So each row of the frame is a result at
once, and a group is final once the frame has closed its key. The group-by itself is the stream join's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from pydantic import ValidationError
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from endmark.engine import channels
from endmark.engine.bucket.plan import BucketPlan
from endmark.engine.groups.plan import GroupPlan
from endmark.engine.ingest.frame_rows import PackFrame, UnpackFrame
from endmark.engine.streams import nobody
from endmark.errors import ConfigError
from endmark.frame.projection import require_distinct
from endmark.frame.texts import FRAME
from endmark.operators.group_by.group_by import KeyColumn
from endmark.operators.group_by.measures import OrderColumn
from endmark.operators.group_by.running_groups import BATCH, FINAL
from endmark.operators.stream_join.presets import Preset, policy
from endmark.pipeline.measures import FUNCTIONS, same, several
from endmark.pipeline.steps.aggregate import Aggregate
from endmark.spark.dataframe import gathered, numbered, state_buckets
from endmark.spark.frame_inputs import frame_stream, is_key, require_streaming
from endmark.spark.processor import StageProcessor
from endmark.types import JoinType
from endmark.wire.json.column import is_restrictable, kind_of
from endmark.wire.renamed_punctuations import Renaming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from endmark.engine.channels import Buckets
    from endmark.engine.streams import StreamPlan
    from endmark.operators.group_by.measures import MeasureSpec
    from endmark.pipeline.steps.aggregate import Measure

_RUNNING = pa.schema([(FINAL, pa.bool_()), (BATCH, pa.int64())])
_AT = ("$at", pa.timestamp("us", "UTC"))  # all rows have the same event time, so that none is late


@dataclass(frozen=True)
class Grouping:
    """The checked group-by of a frame.

    Args:
        plan: the join and its group-by.
        schema: the columns of a group: its key, then its measures. A running group also has `final` and
            `batch`.
    """

    plan: BucketPlan
    schema: pa.Schema

    @classmethod
    def of(
        cls,
        rows: pa.Schema,
        declared: Aggregate,
        ordered_by: Sequence[str],
        buckets: int,
        *,
        running: bool,
    ) -> Self:
        """Make the group-by of a frame.

        Args:
            rows: the columns that the group-by needs, and no others.
            declared: the group-by as a pipeline file has it.
            ordered_by: the columns by which `first` and `last` order rows.
            buckets: the number of buckets.
            running: whether groups also come out after each batch that changed them.
        """
        order = [
            OrderColumn(str(number), _seen(name), rows.field(name).type)
            for number, name in enumerate(ordered_by)
        ]
        # Control rows have nulls even in a column that Spark takes for one without nulls.
        keys = [rows.field(name).with_nullable(True) for name in declared.by]
        frame = _stream(FRAME, [*rows, pa.field(*_AT)], declared.by)
        measures = [_measure(name, measure, rows, order) for name, measure in declared.measures.items()]
        columns = [KeyColumn(each.name, each.type, (_seen(each.name),)) for each in keys]
        group = pa.schema([*keys, *((measure.name, measure.kind) for measure in measures)])
        plan = BucketPlan(
            (frame, nobody(frame)),
            JoinType.LEFT,
            residual=None,
            policy=policy(Preset.AUTO, windowed=False),
            groups=(GroupPlan(FRAME, columns, measures, group.names, running, final=not running),),
            buckets=buckets,
            made_with={
                **_made_with(declared, ordered_by, rows, buckets),
                "running": str(running),
            },
            in_band=True,
            shows_results=False,
        )
        return cls(plan, pa.schema([*group, *(_RUNNING if running else ())]))

    @property
    def channel(self) -> str:
        """The channel of the groups among the packed rows of the join."""
        (groups,) = self.plan.groups
        return groups.running_channel if groups.running else groups.final_channel

    @property
    def renaming(self) -> Renaming:
        """The renaming from columns of the join's results to columns of groups.

        Measures count as computed, since punctuations of groups restrict columns of the key alone.
        """
        frame = self.plan.stream(FRAME)
        origins = {name: _seen(name) if name in frame.on else None for name in self.schema.names}
        return Renaming(frame.side.schema, origins)


class PackGroups:
    """A function for `mapInArrow` that packs the rows of a frame, with an event time.

    Args:
        plan: the plan of the group-by.
        buckets: the buckets of the operator.
        punctuations: the position of the frame's column of punctuations.
        renaming: the change of the frame's column names since its punctuations were written.
    """

    def __init__(self, plan: BucketPlan, buckets: Buckets, punctuations: int, renaming: Renaming) -> None:
        self._pack = PackFrame(plan.stream(FRAME), buckets, punctuations, renaming)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self._pack(self._timed(batches))

    def _timed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name, kind = _AT
        for batch in batches:
            yield batch.append_column(name, pa.repeat(pa.scalar(0, kind), batch.num_rows))


def declared_groups(
    by: Sequence[str],
    measures: Mapping[str, Any],
    ordered_by: Sequence[str],
    rows: pa.Schema,
    *,
    running: bool = False,
) -> Aggregate:
    """Check a group-by of a frame, and return it as a pipeline file has it.

    Args:
        by: the columns of the key.
        measures: the measures by name, as in a pipeline file.
        ordered_by: the columns by which `first` and `last` order rows; empty if no measure is one of these.
        rows: the columns of the frame.
        running: whether groups also come out after each batch that changed them.

    Raises:
        ConfigError: the arguments are no group-by, or the frame lacks a column or has one of another type.
    """
    try:
        declared = Aggregate.model_validate({"by": list(by), "measures": dict(measures)})
    except ValidationError as error:
        raise ConfigError(f"aggregate: {_wrong(error)}") from error
    ordered = [name for name, each in declared.measures.items() if FUNCTIONS[each.function].by_order]
    if ordered and not ordered_by:
        raise ConfigError(
            f"aggregate: {ordered[0]}: rows of a frame have no order; say what first and last go by in "
            "ordered_by, as in ordered_by='at'"
        )
    if ordered_by and not ordered:
        raise ConfigError("aggregate: ordered_by: no measure is first or last; leave it out")
    measured = [each.column for each in declared.measures.values() if each.column is not None]
    named = [*declared.by, *measured, *ordered_by]
    if missing := [name for name in named if name not in rows.names]:
        raise ConfigError(f"aggregate: the frame has no column {', '.join(missing)}; name others")
    if twice := declared.measures.keys() & set(declared.by):
        raise ConfigError(f"aggregate: {', '.join(sorted(twice))} is of the key; name the measure otherwise")
    if running and (taken := {*declared.by, *declared.measures} & set(_RUNNING.names)):
        raise ConfigError(
            f"aggregate: running groups have a column {min(taken)} of their own; name yours otherwise"
        )
    if odd := [name for name in named if not is_restrictable(rows.field(name).type)]:
        raise ConfigError(f"aggregate: column {odd[0]} is {rows.field(odd[0]).type}; cast it")
    if odd := [name for name in declared.by if not is_key(rows.field(name).type)]:
        raise ConfigError(f"aggregate: column {odd[0]} is double, which is no key; cast it to string")
    if odd := [name for name in ordered_by if not is_key(rows.field(name).type)]:
        raise ConfigError(f"aggregate: ordered_by: column {odd[0]} is double; cast it to decimal")
    return declared


def grouped(
    frame: DataFrame,
    declared: Aggregate,
    ordered_by: Sequence[str],
    punctuations: str,
    renaming: Renaming,
    *,
    running: bool,
) -> tuple[DataFrame, Renaming, Mapping[str, str]]:
    """Return the groups of a frame, the renaming of their punctuations, and what a checkpoint keeps of them.

    Args:
        frame: the frame, with the columns that the groups need and the column of punctuations.
        declared: the group-by.
        ordered_by: the columns by which `first` and `last` order rows.
        punctuations: the name of the column of punctuations.
        renaming: the change of the frame's column names since its punctuations were written.
        running: whether groups also come out after each batch that changed them.

    Raises:
        ConfigError: two columns of the result have the same name, or the frame is no stream.
    """
    buckets = state_buckets(frame.sparkSession)
    rows = to_arrow_schema(frame.drop(punctuations).schema, timezone="UTC")
    grouping = Grouping.of(rows, declared, ordered_by, len(buckets), running=running)
    schema = grouping.schema.append(pa.field(punctuations, pa.string()))
    require_distinct(schema.names)
    require_streaming("aggregate: the frame", frame)
    pack = PackGroups(grouping.plan, buckets, frame.columns.index(punctuations), renaming)
    packed = numbered(frame).mapInArrow(pack.__call__, channels.PACKED_DDL).groupBy("bucket")
    processor = StageProcessor(grouping.plan)
    out = packed.transformWithState(processor, channels.UNPACKED_DDL, "append", "none")
    unpack = UnpackFrame(schema, grouping.channel)
    groups = gathered(out, buckets, grouping.channel).mapInArrow(unpack.__call__, from_arrow_schema(schema))
    return groups, grouping.renaming, grouping.plan.made_with


def _made_with(
    declared: Aggregate, ordered_by: Sequence[str], rows: pa.Schema, buckets: int
) -> dict[str, str]:
    """The arguments that may not change while there is state, as text."""
    measures = [f"{name}: {each.function} {each.column or ''}" for name, each in declared.measures.items()]
    return {
        "spark.sql.shuffle.partitions": str(buckets),
        "by": ", ".join(declared.by),
        "measures": ", ".join(measures),
        "ordered_by": ", ".join(ordered_by),
        "columns": ", ".join(f"{field.name} {field.type}" for field in rows),
    }


def _wrong(error: ValidationError) -> str:
    """Return what is wrong with a group-by, in the words of the arguments of `aggregate`."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["loc"] == ("measures",):
        return "it has no measure; name one, such as rows='count'"
    field = ".".join(str(each) for each in first["loc"] if each != "measures")
    said = first["msg"].removeprefix("Value error, ").replace("stream.column", "column")
    return ": ".join(filter(None, (field, said)))


def _stream(name: str, fields: Sequence[pa.Field], by: tuple[str, ...]) -> StreamPlan:
    schema = pa.schema([field.with_name(f"{name}_{field.name}") for field in fields])
    return frame_stream(name, schema, by, _AT[0], None, timedelta(0), punctuated=True)


def _measure(name: str, measure: Measure, rows: pa.Schema, order: Sequence[OrderColumn]) -> MeasureSpec:
    function = FUNCTIONS[measure.function]
    implementation = function.implementation()
    if measure.column is None:
        return implementation(name, None, pa.int64())
    of = rows.field(measure.column).type
    try:
        kind = measure.kind(kind_of(of)).arrow
    except ValueError as error:
        raise ConfigError(f"aggregate: {name}: {error}") from error
    # Spark has types that a pipeline lacks, such as `int`.
    if function.result is same:
        kind = of
    elif function.result is several:
        kind = pa.list_(of)
    own_order = tuple(order) if function.by_order else ()
    return implementation(name, _seen(measure.column), kind, of, own_order)


def _seen(column: str) -> str:
    """The name of a frame's column in the join's results."""
    return f"{FRAME}_{column}"
