"""The plan of a job, in Spark, against the recomputation of `verify`: random pipelines, records and restarts.

`make test` runs a few cases of each preset, `make test-spark` as many as it is told.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from endmark.operators.stream_join.presets import Preset
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.bucket_tasks import upserted
from support.cases import drawn, spark_cases
from support.graph_records import graph_records
from support.graph_world import graphs
from support.postgresql import PostgreSql
from support.published_rows import with_published_rows
from support.relations import Database
from support.sizes import BUCKETS, PARTITIONS, SIZES
from support.spark_pipeline import End, SparkPipeline
from support.verify_histories import MATCHINGS, broken_histories, histories, matched, pipelines
from support.verify_keys import KEY_KINDS
from support.verify_others import seed_others
from support.verify_places import seed_sellers
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_steps import with_row_steps
from support.verify_world import Record, locate, make_pipeline

AT_ONCE = 2  # the start of a query mostly waits for one core


@dataclass(frozen=True)
class Case:
    """A pipeline, all records, and of each batch: how many of them it ends after, and how the query ends.

    The last batch is one record, so that it is a pause, in which a join that has spilled catches up.
    """

    pipeline: Pipeline
    records: list[Record]
    cuts: list[tuple[int, End]]
    partitions: Mapping[str, int]
    buckets: int
    full_batch: int | None


@st.composite
def cases(draw: st.DrawFn, preset: Preset, url: str) -> Case:
    kind, keys = draw(st.sampled_from([*JoinType, None])), draw(st.sampled_from(list(KEY_KINDS.values())))
    idle = draw(st.booleans())
    sizes = draw(SIZES)
    partitions = sizes.partitions
    pipeline = draw(pipelines(kind, keys, url, preset, idle=idle, several=True, gaps=True))
    streams = pipeline.streams
    history = (
        broken_histories(keys, partitions, streams) if idle else histories(keys, partitions, streams, 20)
    )
    records = draw(history)
    full_batch = draw(st.sampled_from([None, 2]))
    return Case(pipeline, records, draw(cut(len(records))), partitions, sizes.buckets, full_batch)


@st.composite
def graph_cases(draw: st.DrawFn, url: str) -> Case:
    """Cases of pipelines of any shape, whose rows are not parked, as no batch comes for them in the end."""
    pipeline = draw(graphs(url, parking=False, timed=draw(st.booleans())))
    partitions = {stream.topic: draw(PARTITIONS) for stream in pipeline.streams.values()}
    records = draw(graph_records(pipeline, partitions))
    full_batch = draw(st.sampled_from([None, 2]))
    return Case(pipeline, records, draw(cut(len(records))), partitions, draw(BUCKETS), full_batch)


@st.composite
def deduplicated_cases(draw: st.DrawFn, url: str) -> Case:
    """Cases of pipelines with row steps, of which some drop duplicates."""
    case = draw(cases(Preset.AUTO, url))
    pipeline = draw(with_row_steps(case.pipeline))
    assume(any(pipeline.deduplicate_of(stream) for stream in pipeline.sides))
    return replace(case, pipeline=pipeline)


@st.composite
def cut(draw: st.DrawFn, count: int) -> list[tuple[int, End]]:
    """The cuts of so many records into a few batches."""
    inner = [*draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=2)), count - 1]
    ends = [draw(st.sampled_from([End.STOP, End.STOP, End.FAIL, End.GO_ON])) for _ in inner]
    return [*zip(sorted(inner), ends, strict=True), (count, End.GO_ON)]


def seeded(url: str) -> str:
    """Write the sellers and `OTHERS` to databases, at a URL with a place for one of `MATCHINGS`."""
    for how in MATCHINGS:
        pipeline = make_pipeline(url.format(how), looking=matched(how, "bids"))
        seed_sellers(pipeline.relations["sellers"].url, sellers_of(pipeline))
        seed_others(pipeline.relations["sellers"].url)
    return url


@pytest.fixture(scope="module")
def sellers(tmp_path_factory: pytest.TempPathFactory) -> str:
    return seeded(f"sqlite:///{tmp_path_factory.mktemp('sellers')}/{{}}.db")


@pytest.fixture(scope="module")
def sellers_in_postgresql() -> Iterator[str]:
    with PostgreSql() as server:
        Database(server.url).run(*(f"CREATE DATABASE {how}" for how in MATCHINGS))
        yield seeded(server.url.removesuffix("postgres") + "{}")


def check(spark: SparkSession, case: Case) -> None:
    located = locate(case.records)
    starts = [0, *(cut for cut, _ in case.cuts)]
    batches = [(located[start:stop], end) for start, (stop, end) in zip(starts, case.cuts, strict=False)]
    directory = Path(tempfile.mkdtemp(prefix="endmark-case-"))
    try:
        query = SparkPipeline(spark, case.pipeline, case.partitions, case.buckets, case.full_batch, directory)
        by_batch = query.run(batches)
    finally:
        shutil.rmtree(directory)
    found = upserted(case.pipeline, by_batch)
    pipeline = with_published_rows(case.pipeline)
    with recomputed(pipeline, case.records, found, case.partitions) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("preset", Preset)
def test_tables_equal_their_recomputation(preset: Preset, spark: SparkSession, sellers: str) -> None:
    """Whatever the key, the join, the condition and the batches, however many buckets there are, and whether
    the query goes on, is started anew or repeats a batch."""
    check_all(spark, *drawn(cases(preset, sellers), spark_cases(usual=1)))


def test_graphs_equal_their_recomputation(spark: SparkSession, sellers: str) -> None:
    """Row steps, chained lookups, joins of several streams, groups by other columns, in all tables."""
    check_all(spark, *drawn(graph_cases(sellers), spark_cases(usual=2)))


def test_first_rows_equal_their_recomputation(spark: SparkSession, sellers: str) -> None:
    """Rows of earlier batches make later ones duplicates, also in another query and in a repeated batch."""
    check_all(spark, *drawn(deduplicated_cases(sellers), spark_cases(usual=3)))


def test_a_relation_in_postgresql(spark: SparkSession, sellers_in_postgresql: str) -> None:
    """MariaDB is held by the tests of jobs."""
    drawn_cases = st.sampled_from(Preset).flatmap(lambda preset: cases(preset, sellers_in_postgresql))
    check_all(spark, *drawn(drawn_cases, spark_cases(usual=4)))


def check_all(spark: SparkSession, found: list[Case], seed: int) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        checks = [(case, pool.submit(check, spark, case)) for case in found]
        for case, checked in checks:
            failure = checked.exception()
            assert failure is None, f"seed {seed}: {failure!r} in {case}"
