"""The stream join on any two streaming DataFrames, with punctuations in a column of theirs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from endmark.engine import channels
from endmark.engine.bucket.plan import BucketPlan
from endmark.engine.ingest.frame_rows import PackFrame, UnpackFrame
from endmark.errors import ConfigError
from endmark.operators.stream_join.presets import Preset, policy
from endmark.spark.frame_inputs import FrameInput, frame_inputs
from endmark.spark.plan import bucket_labels
from endmark.spark.processor import BucketProcessor, ResultsProcessor
from endmark.spark.session import SAFE_FORMAT, STATE_FORMAT
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, GroupedData, SparkSession

    from endmark.condition import Condition
    from endmark.engine.channels import Buckets
    from endmark.wire.renamed_punctuations import Renaming

_Name = TypeVar("_Name", bound=StrEnum)
# Types that results pass pyspark's pandas with as they are; it would look into values of any other.
_COLUMNS = (NumericType, StringType, BinaryType, BooleanType, DateType, TimestampType)


def stream_join(  # noqa: PLR0913  # each of them is a choice of its own
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | Sequence[str | tuple[str, str]],
    how: str = "inner",
    where: str | None = None,
    time: str | tuple[str, str],
    window: timedelta | None,
    lateness: timedelta = timedelta(0),
    punctuations: str | None = None,
    renamings: tuple[Renaming | None, Renaming | None] = (None, None),
    preset: str = "auto",
    purge_every: int = 1,
    memory: int | None = None,
) -> DataFrame:
    """Join two streaming DataFrames on columns of equal type, within a window of event time.

    Each frame counts as one stream in time order, but for `lateness`: later rows are not joined. The result
    has the columns of both sides, prefixed with `left_` and `right_`; a semi join's has those of the left
    side. Rows without a partner come once none can come.

    With `punctuations` the frames may have a column of that name, and the result has. A row with text in it
    is a control row, in which nothing else counts. The text is a punctuation in the frame's own names, such
    as `{"item_id": {"equals": 42}}`, and stands behind all rows of its batch; in results also a
    `$dead_letter`, a text that is none, or a `$violation`, a row that was not joined: see docs/frames.md.

    Args:
        left, right: streaming frames of one session.
        on: columns of both frames, or pairs of a left and a right one: integers, booleans, dates, timestamps,
            strings or decimals. No nulls, unless there are `punctuations`.
        how: `inner`, `left`, `right`, `full` or `semi`.
        where: an SQL condition over the prefixed columns of both sides that joined rows must also meet.
        time: a timestamp column of both frames, or a pair of a left and a right one. No nulls, likewise.
        window: how long a row of either side stays joinable; `None` is for ever.
        lateness: how much older than the newest row of an earlier batch a row may be.
        punctuations: name of a string column of one frame or both.
        renamings: of each frame whose texts speak of columns that it has renamed or dropped since.
        preset, purge_every: what frees state, as in `operators/stream_join/presets.py`.
        memory: bytes of rows that all buckets keep in memory; rows beyond are spilled.

    Raises:
        ConfigError: a column, the type of the join, the condition or the preset is not what it must be.
    """
    inputs = frame_inputs(left, right, on, time, window, lateness, punctuations, renamings)
    buckets = state_buckets(left.sparkSession)
    kind, chosen = _one_of(JoinType, how, "how"), _one_of(Preset, preset, "preset")
    share = None if memory is None else memory // len(buckets)
    rules = policy(chosen, windowed=window is not None, purge_every=purge_every, memory=share)
    said: dict[str, object] = {"how": how, "where": where, "window": window, "preset": preset}
    made = _made_with(inputs, buckets, said | {"purge_every": purge_every, "lateness": lateness})
    (one, other), residual = (each.stream for each in inputs), _residual(inputs, where)
    shown = inputs[:1] if kind is JoinType.SEMI else inputs
    fields = StructType([field for each in shown for field in each.shown])
    plan = BucketPlan(
        one, other, kind, residual, rules, None, made_with=made, in_band=punctuations is not None
    )
    return _joined(_packed(inputs, buckets), plan, fields, buckets, punctuations)


def _joined(
    packed: GroupedData,
    plan: BucketPlan,
    fields: StructType,
    buckets: Buckets,
    punctuations: str | None,
) -> DataFrame:
    """The frame of results that have these columns."""
    if punctuations is None and all(isinstance(field.dataType, _COLUMNS) for field in fields):
        processor = ResultsProcessor(replace(plan, packs_results=False))
        return packed.transformWithStateInPandas(processor, fields, "append", "none")
    blobs = BucketProcessor(plan)
    joined = packed.transformWithState(blobs, channels.UNPACKED_DDL, "append", "none")
    if punctuations is None:
        results = joined.where(F.col("channel") == channels.RESULTS).select("blob")
        return results.mapInArrow(channels.unpack, fields)
    if punctuations.lower() in (field.name.lower() for field in fields):  # one to Spark
        raise ConfigError(f"punctuations: the result has a column {punctuations!r} already; name another")
    fields = fields.add(punctuations, StringType())
    unpack = UnpackFrame(to_arrow_schema(fields, timezone="UTC"))
    return gathered(joined, buckets).mapInArrow(unpack.__call__, fields)


def state_buckets(spark: SparkSession) -> Buckets:
    """The buckets of an operator: as many as Spark has shuffle partitions.

    Raises:
        ConfigError: the session keeps state in a format that does not tell apart attempts at one batch.
    """
    if spark.conf.get(STATE_FORMAT) != SAFE_FORMAT:
        raise ConfigError(
            f"{STATE_FORMAT} must be {SAFE_FORMAT}: in another format, what a crash left of a batch is mixed "
            "with what its repetition does; set it before the stream is defined"
        )
    return bucket_labels(spark, int(spark.conf.get("spark.sql.shuffle.partitions") or 2))


def _packed(inputs: tuple[FrameInput, FrameInput], buckets: Buckets) -> GroupedData:
    left, right = (
        each.frame.mapInArrow(
            PackFrame(each.stream, buckets, each.punctuations, each.renaming).__call__, channels.PACKED_DDL
        )
        for each in inputs
    )
    return left.union(right).groupBy("bucket")


def gathered(joined: DataFrame, buckets: Buckets, rows: str = channels.RESULTS) -> DataFrame:
    """Shuffle an operator's output, so that all that buckets say of patterns is in one task.

    Rows take part in this shuffle as blobs, and those of each bucket stay together: to read the output twice
    instead would compute it twice.

    Args:
        joined: the output of an operator, as channels and blobs.
        buckets: the buckets of the operator.
        rows: the channel of the rows.
    """
    labels = F.array(*map(F.lit, buckets.labels))
    home: Column = F.element_at(labels, F.spark_partition_id() % len(buckets) + 1)
    together = F.col("channel") == channels.PATTERNS
    wanted = [rows, channels.ANNOUNCED, channels.PATTERNS, channels.REFUSED]
    kept = joined.where(F.col("channel").isin(wanted))
    moved = kept.withColumn("bucket", F.when(together, buckets.labels[0]).otherwise(home))
    return moved.repartition(len(buckets), "bucket").drop("bucket")


def _made_with(
    inputs: tuple[FrameInput, FrameInput], buckets: Buckets, said: dict[str, object]
) -> dict[str, str]:
    """Return the arguments that may not change while there is state, as text."""
    left, right = inputs
    made = {"spark.sql.shuffle.partitions": str(len(buckets)), "on": _keys(left, right)}
    made["time"] = _both(left.time, right.time)
    punctuated = [each.stream.name for each in inputs if each.punctuations is not None]
    made["punctuations"] = ", ".join(punctuated) or "none"
    made |= {name: str(value) for name, value in said.items()}
    return made | {f"{each.stream.name} columns": ", ".join(map(str, each.schema)) for each in inputs}


def _keys(left: FrameInput, right: FrameInput) -> str:
    pairs = zip(left.stream.on, right.stream.on, strict=True)
    return ", ".join(f"{_both(*pair)} {left.schema.field(f'left_{pair[0]}').type}" for pair in pairs)


def _both(left: str, right: str) -> str:
    return left if left == right else f"{left} = {right}"


def _residual(inputs: tuple[FrameInput, FrameInput], where: str | None) -> Condition | None:
    # Tasks import this module, and DuckDB takes them a tenth of a second.
    from endmark.condition import Condition

    pair: pa.Schema = inputs[0].schema
    for field in inputs[1].schema:
        pair = pair.append(field)
    return None if where is None else Condition.of(where, pair)


def _one_of(known: type[_Name], value: str, argument: str) -> _Name:
    try:
        return known(value)
    except ValueError as error:
        raise ConfigError(f"{argument}: {value!r} is not one of {', '.join(known)}") from error
