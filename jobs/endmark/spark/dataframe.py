"""The stream join of any two streaming DataFrames, which may carry punctuations in a column."""

from __future__ import annotations

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
from endmark.spark.classic import require_classic
from endmark.spark.frame_inputs import FrameInput, frame_inputs
from endmark.spark.plan import bucket_labels
from endmark.spark.processor import ResultsProcessor, StageProcessor
from endmark.spark.session import SAFE_FORMAT, STATE_FORMAT
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, GroupedData, SparkSession

    from endmark.engine.channels import Buckets
    from endmark.expressions.condition import Condition
    from endmark.wire.renamed_punctuations import Renaming

_Name = TypeVar("_Name", bound=StrEnum)
# Results of these types pass through pyspark's pandas unchanged; pyspark looks into values of other types.
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
    preset: str = "auto",
    purge_every: int = 1,
    memory: int | None = None,
) -> DataFrame:
    """Join two streaming DataFrames on columns of equal type, within a window of event time.

    Each frame counts as one stream in the order of event time. A row that is late by more than `lateness` is
    not joined. The result has the columns of both sides, prefixed with `left_` and `right_`; the result of a
    semi join has only the left columns. A row without a partner comes out when no partner can come any more.

    With `punctuations`, the result has a column of that name, and the frames may have one. A row with a text
    in that column is a control row, and its other columns are ignored. The text is a punctuation with the
    frame's own column names, such as `{"item_id": {"equals": 42}}`. It counts after all rows of its batch. In
    the result, the text may also be a `$dead_letter` (a text that could not be read) or a `$violation` (a row
    that was not joined); see docs/frames.md.

    Args:
        left: a streaming frame.
        right: another streaming frame of the same session.
        on: columns of both frames, or pairs of a left and a right column. They may be integers, booleans,
            dates, timestamps, strings or decimals. Nulls are allowed only with `punctuations`.
        how: `inner`, `left`, `right`, `full` or `semi`.
        where: a condition over the prefixed columns of both sides, in DuckDB's SQL; `None` joins all rows of
            equal keys.
        time: a timestamp column of both frames, or a pair of a left and a right column, both with or both
            without a time zone. Nulls are allowed only with `punctuations`.
        window: how long a row of either side stays joinable, in event time; `None` is for ever.
        lateness: how much older than the newest row of an earlier batch a row may be.
        punctuations: the name of a string column of one frame or both; `None` if there are no punctuations.
        preset: what frees state, as in `operators/stream_join/presets.py`.
        purge_every: how many punctuations of a stream a bucket collects before it purges.
        memory: bytes of rows that all buckets together keep in memory, beyond which rows are spilled; `None`
            is without a limit.

    Raises:
        ConfigError: a frame is no stream or belongs to a session of Spark Connect, or an argument is not
            allowed.
    """
    joined, _ = joined_frames(
        left,
        right,
        (None, None),
        on=on,
        how=how,
        where=where,
        time=time,
        window=window,
        lateness=lateness,
        punctuations=punctuations,
        preset=preset,
        purge_every=purge_every,
        memory=memory,
    )
    return joined


def joined_frames(  # noqa: PLR0913  # each of them is a choice of its own
    left: DataFrame,
    right: DataFrame,
    renamings: tuple[Renaming | None, Renaming | None],
    *,
    on: str | Sequence[str | tuple[str, str]],
    how: str,
    where: str | None,
    time: str | tuple[str, str],
    window: timedelta | None,
    lateness: timedelta,
    punctuations: str | None,
    preset: str,
    purge_every: int,
    memory: int | None,
) -> tuple[DataFrame, dict[str, str]]:
    """Join two frames as `stream_join` does, and return the settings that a checkpoint of it keeps, too.

    Args, Raises:
        those of `stream_join`.
        renamings: for each frame, how its columns were renamed or dropped since its texts were written;
            `None` if its columns have their first names.
    """
    for frame in (left, right):
        require_classic(frame)
    _require_condition(where)
    for name, number in (("purge_every", purge_every), ("memory", memory)):
        _require_number(name, number)
    inputs = frame_inputs(left, right, on, time, window, lateness, punctuations, renamings)
    buckets = state_buckets(left.sparkSession)
    kind, chosen = _one_of(JoinType, how, "how"), _one_of(Preset, preset, "preset")
    share = None if memory is None else memory // len(buckets)
    rules = policy(chosen, windowed=window is not None, purge_every=purge_every, memory=share)
    said: dict[str, object] = {"how": how, "where": where, "window": window, "preset": preset}
    made = _made_with(inputs, buckets, said | {"purge_every": purge_every, "lateness": lateness})
    streams, residual = tuple(each.stream for each in inputs), _residual(inputs, where)
    shown = inputs[:1] if kind is JoinType.SEMI else inputs
    fields = StructType([field for each in shown for field in each.shown])
    plan = BucketPlan(
        streams,
        kind,
        residual,
        rules,
        (),
        buckets=len(buckets),
        made_with=made,
        in_band=punctuations is not None,
    )
    return _joined(_packed(inputs, buckets), plan, fields, buckets, punctuations), made


def _require_condition(where: object) -> None:
    if not isinstance(where, str | None):
        raise ConfigError(
            "where: a join takes a text in DuckDB's SQL, such as 'left_price < right_price'; write the "
            f"condition {where!r} so"
        )


def _require_number(name: str, number: object) -> None:
    if number is None:
        return
    if not isinstance(number, int):
        raise ConfigError(f"{name}: {number!r} is no whole number; write one such as 1_000_000")
    if number < 1:
        raise ConfigError(f"{name}: {number} is less than 1; name more, or leave it out")


def _joined(
    packed: GroupedData,
    plan: BucketPlan,
    fields: StructType,
    buckets: Buckets,
    punctuations: str | None,
) -> DataFrame:
    """Return the frame of results.

    Args:
        packed: packed rows of both sides, grouped by bucket.
        plan: the plan of a bucket.
        fields: the columns of results.
        buckets: the buckets.
        punctuations: the name of the column of punctuations; `None` without one.
    """
    if punctuations is None and all(isinstance(field.dataType, _COLUMNS) for field in fields):
        processor = ResultsProcessor(plan)
        return packed.transformWithStateInPandas(processor, fields, "append", "none")
    blobs = StageProcessor(plan)
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
    """Return the buckets of an operator, one for each of Spark's shuffle partitions.

    Raises:
        ConfigError: the session keeps state in a format that mixes up attempts at one batch.
    """
    if spark.conf.get(STATE_FORMAT) != SAFE_FORMAT:
        raise ConfigError(
            f"{STATE_FORMAT} must be {SAFE_FORMAT}: in another format, what a crash left of a batch is mixed "
            "with what its repetition does; build the session with endmark.frame.configure, or set it before "
            "the stream is defined"
        )
    return bucket_labels(spark, int(spark.conf.get("spark.sql.shuffle.partitions") or 2))


def _packed(inputs: tuple[FrameInput, FrameInput], buckets: Buckets) -> GroupedData:
    left, right = (
        numbered(each.frame).mapInArrow(
            PackFrame(each.stream, buckets, each.punctuations, each.renaming).__call__, channels.PACKED_DDL
        )
        for each in inputs
    )
    return left.union(right).groupBy("bucket")


def numbered(frame: DataFrame) -> DataFrame:
    """Name a frame's columns by their positions, since `mapInArrow` fails at a dot in a name."""
    return frame.toDF(*map(str, range(len(frame.columns))))


def gathered(joined: DataFrame, buckets: Buckets, rows: str = channels.RESULTS) -> DataFrame:
    """Shuffle an operator's output so that one task gets the reports of all buckets on patterns.

    Rows take part in this shuffle as blobs, and the rows of a bucket stay together. A second plan for the
    reports would compute the output twice.

    Args:
        joined: the output of an operator, as (channel, blob).
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
    """Return the arguments that must not change while there is state, as texts by name."""
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
    # Tasks import this module, and importing DuckDB takes a tenth of a second.
    from endmark.expressions.condition import Condition

    pair: pa.Schema = inputs[0].schema
    for field in inputs[1].schema:
        pair = pair.append(field)
    return None if where is None else Condition.of(where, pair)


def _one_of(known: type[_Name], value: str, argument: str) -> _Name:
    try:
        return known(value)
    except ValueError as error:
        raise ConfigError(f"{argument}: {value!r} is not one of {', '.join(known)}") from error
