"""The lookup on a frame, and as a job does it, without the stream join behind it.

A lookup alone is a frame's. A job has a stream join, so there rows take its way (packed by the bucket of a
join key, through the shuffle into `transformWithState`, there looked up, and handed over as blobs), but those
looked up go straight to the sink. In a job, the join and its state would follow in the same bucket.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from endmark.engine import channels
from endmark.engine.bucket.lookup_plan import LookupPlan
from endmark.engine.bucket.lookups import Lookups
from endmark.engine.channels import Packer
from endmark.engine.segment_cache import cache_directory
from endmark.engine.stored_task import StateBlobs
from endmark.frame import PunctuatedFrame
from endmark.operators.lookup.gate import GateSpec
from endmark.operators.lookup.held_batches import BATCH
from endmark.operators.lookup.join import LookupSpec, Misses, Source
from endmark.operators.lookup.read_timing import measure
from endmark.operators.promise_codec import PromiseCodec
from endmark.operators.stream_batch import StreamBatch
from endmark.spark.plan import bucket_labels
from endmark.spark.processor import STATE_KEY, STATE_VALUE
from endmark.state import codec
from endmark.state.keys import KeySpec
from endmark.state.store import SegmentStore
from endmark_benchmarks.workloads.lookup_input import ANSWERS_DDL, declared, relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from endmark.engine.channels import Buckets
    from endmark.operators.lookup.cache import CacheSpec
    from endmark.operators.lookup.strategies import Name

PAGE_ROWS = 500  # as a pipeline file that does not say
_ANSWERED = ("key", "id", "name", "price", "pad")
_PUNCTUATIONS, _PREFIX = "punctuations", "r"
_LOOKUP = "lookup"
# Rows lie in the bucket of the key they would be joined by, which is not the one they are looked up by.
_JOIN_KEY = KeySpec.of(["id"], [pa.int64()])


def on_frame(stream: DataFrame, url: str, strategy: Name) -> DataFrame:
    """Return the answers to a stream of `key` and `id` as a streaming frame, made by `PunctuatedFrame`.

    Args:
        stream: the stream.
        url: the database with R.
        strategy: the strategy.
    """
    punctuated = stream.withColumn(_PUNCTUATIONS, F.lit(None).cast("string"))
    found = PunctuatedFrame(punctuated, _PUNCTUATIONS).lookup_join(
        declared(url), on="key", prefix=_PREFIX, strategy=strategy
    )
    columns = [name if name in stream.columns else f"{_PREFIX}_{name}" for name in _ANSWERED]
    return found.rows.select(*columns).toDF(*_ANSWERED)


def in_job(
    stream: DataFrame, url: str, strategy: Name, cache: CacheSpec | None, cache_name: str
) -> DataFrame:
    """Return the answers to a stream as the operator of a job makes them.

    Args:
        stream: a stream of `key` and `id`.
        url: the database with R.
        strategy: the strategy.
        cache: the cache; `None` without one.
        cache_name: the name of the job's cache.
    """
    spark = stream.sparkSession
    buckets = bucket_labels(spark, int(spark.conf.get("spark.sql.shuffle.partitions") or 2))
    packed = stream.mapInArrow(partial(_pack, buckets=buckets), channels.PACKED_DDL)
    processor = _Processor(_plan(url, strategy, cache, cache_name))
    given = packed.groupBy("bucket").transformWithState(processor, channels.UNPACKED_DDL, "append", "none")
    return given.select("blob").mapInArrow(channels.unpack, ANSWERS_DDL)


def _plan(url: str, strategy: Name, cache: CacheSpec | None, cache_name: str) -> LookupPlan:
    reader = relation(url)
    directory = reader.directory(PAGE_ROWS)
    source = Source(reader, directory, strategy, measure(reader, directory), unique=True)
    schema = pa.schema([("key", pa.int64()), ("id", pa.int64()), (BATCH, pa.int64())])
    renamed = {name: name for name in ("name", "price", "pad")}
    lookup = LookupSpec(schema, KeySpec.of(["key"], [pa.int64()]), renamed, Misses("drop"))
    gate = GateSpec(lookup, _JOIN_KEY, PromiseCodec("s", pa.schema([]), _JOIN_KEY))
    paging = PAGE_ROWS, reader.directory
    return LookupPlan("s", "r", "", 0, gate, source, reader.batch, cache, cache_name, 1, *paging)


def _pack(batches: Iterator[pa.RecordBatch], buckets: Buckets) -> Iterator[pa.RecordBatch]:
    packer = Packer()
    for batch in batches:
        for label, share in buckets.by_key(batch, _JOIN_KEY):
            packer.add(label, channels.ROWS, share)
        yield from packer.flush()


class _Processor(StatefulProcessor):
    """`StageProcessor` with a lookup alone."""

    def __init__(self, plan: LookupPlan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._blobs = StateBlobs(handle.getMapState("state", STATE_KEY, STATE_VALUE))
        self._store = SegmentStore(self._blobs, cache_directory())

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Look up the rows of one bucket. Spark calls this.

        Args:
            key: the label of the bucket.
            rows: packed rows.
            timerValues: unused.
        """
        found = self._blobs.find(_LOOKUP)
        restored = {} if found is None else {self._plan.relation: found}
        lookups = Lookups([self._plan], self._store, restored)
        came = StreamBatch(rows=codec.concat([codec.decode(bytes(row.blob)) for row in rows]))
        for entering in lookups.process({self._plan.stream: came}, pause=True)[self._plan.stream]:
            if entering.rows is not None:
                blob = codec.encode(entering.rows.select(list(_ANSWERED)))
                yield Row(channel=channels.RESULTS, blob=blob)
        self._blobs.put(_LOOKUP, lookups.snapshot()[self._plan.relation])

    def close(self) -> None:
        pass
