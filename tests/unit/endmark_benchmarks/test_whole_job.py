"""The arithmetic of measurements on whole jobs, without running one."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import endmark.pipelines
from endmark.control.ops_database.batches import FinishedBatch
from endmark.errors import ConfigError, EndmarkError
from endmark_benchmarks.contenders.kafka_spark import batches
from endmark_benchmarks.harness import job_contest
from endmark_benchmarks.harness.contest import Digest, DisagreementError
from endmark_benchmarks.harness.delta import Commit, commits
from endmark_benchmarks.harness.job_contest import BatchTime
from endmark_benchmarks.harness.shares import python_seconds, python_shares, wall_seconds, wall_shares
from endmark_benchmarks.measurements import further_stage, latency, lookup_alone, pipeline, recovery
from endmark_benchmarks.page.chart import stacked
from endmark_benchmarks.page.write import pictures, tables
from endmark_benchmarks.workloads import shop
from endmark_benchmarks.workloads.measured import Measured
from endmark_feed.message import EPOCH, Kind
from endmark_feed.options import FeedOptions
from endmark_feed.workload import messages

DATABASE = "mysql+pymysql://somebody@localhost/somewhere"
SVG = "{http://www.w3.org/2000/svg}"
TASKS, TABLE = "compute_seconds", "write_seconds{table=results}"


def told(total: float, sink: float, tasks: float, planning: float, **python: float) -> dict[str, float]:
    phases = {"total": total, "compute_and_write": sink, "planning": planning}
    return {
        TASKS: tasks,
        **{f"batch_seconds{{phase={name}}}": seconds for name, seconds in phases.items()},
        **{f"profile_seconds_total{{phase={name}}}": seconds for name, seconds in python.items()},
    }


def test_a_rate_is_that_after_the_first_third() -> None:
    warm, *rest = [BatchTime(100, 50), BatchTime(100, 1), BatchTime(50, 2)]
    assert job_contest.rate([warm, *rest]) == 50


def test_streams_are_read_in_step() -> None:
    assert job_contest.split({"items": 100, "bids": 300}, 40) == {"items": 10, "bids": 30}
    assert job_contest.split({"items": 1, "bids": 10_000}, 40)["items"] == 1


def test_too_few_batches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="less than three batches of 400"):
        pipeline.PipelineOptions(1_000, 400, 10, 100.0, 1, tmp_path)


def test_an_unknown_contender_of_the_pipeline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--contender: 'flnk' is not one of endmark, spark, flink-counting"):
        pipeline.PipelineOptions(1_000, 100, 10, 100.0, 1, tmp_path, ("flnk",))


def test_other_tables_end_it() -> None:
    ours = [Digest(1, 2, 3), Digest(1, 2, 3)]
    job_contest.require_same("spark", list(ours), ours)
    job_contest.require_same("without groups", ours[:1], ours)
    with pytest.raises(DisagreementError, match="nothing to compare"):
        job_contest.require_same("without results", [], ours)
    with pytest.raises(DisagreementError, match="nothing to compare"):
        job_contest.require_same("spark", [ours[0], Digest(1, 2, 4)], ours)


def test_shares_are_of_all_batches_and_add_up() -> None:
    found = [told(1.0, 0.8, 0.6, 0.1, parse=0.4, join=0.2), told(3.0, 2.8, 2.4, 0.1, parse=1.2)]

    assert wall_shares(found) == {"tasks": 75.0, "tables": 15.0, "planning": 5.0, "rest": 5.0}
    assert python_shares(found) == {"parse": 20.0, "join": 2.5, "rest": 77.5}
    assert wall_seconds(found, 2e6) == {"tasks": 1.5, "tables": 0.3, "planning": 0.1}
    assert python_seconds(found, 2e6) == {"parse": 0.8, "join": 0.1}


def test_stages_differ_by_the_key_of_their_groups() -> None:
    one, two = (measured.load(DATABASE) for measured in further_stage.STAGES.values())

    [here], [further] = one.groups, two.groups
    assert (here.regroups, further.regroups) == (False, True)
    assert (here.key, further.key) == (("item_id",), ("items_seller_id",))
    assert one.outputs.directories == two.outputs.directories
    assert here.aggregate.measures == further.aggregate.measures


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [({}, 0), ({"bids": [1, 1, 2]}, 1), ({"items_seller_id": [7, 7, 8]}, 2), ({"batch": [2, 1, 1]}, 1)],
)
def test_groups_are_those_of_the_results(changed: dict[str, Any], wrong: int, tmp_path: Path) -> None:
    """Seller 7 has two bids in two batches, seller 9 two in one."""
    groups = {"items_seller_id": [7, 7, 9], "bids": [1, 2, 2], "highest_bid": [1.0, 3.0, 2.0]}
    results = {"items_seller_id": [7, 7, 9, 9], "bids_price": [1.0, 3.0, 2.0, 1.0]}
    write_deltalake(tmp_path / "groups", pa.table(groups | {"batch": [1, 2, 1]} | changed))
    write_deltalake(tmp_path / "results", pa.table(results))
    pipeline = further_stage.STAGES["two stages"].load(DATABASE)

    if not wrong:
        further_stage.require_right_groups("two", pipeline, tmp_path)
        return
    with pytest.raises(DisagreementError, match=rf"two: {wrong} of \d groups are not those of the results"):
        further_stage.require_right_groups("two", pipeline, tmp_path)


def test_measured_pipelines_have_the_streams_of_the_examples() -> None:
    """They read recordings of these, whose records have all their columns."""
    examples = Path(endmark.pipelines.__file__)
    for measured, example in (
        (shop.MEASURED, examples.with_name("fulfilment.yaml")),
        (lookup_alone.MEASURED, examples.with_name("auction.yaml")),
    ):
        ours, theirs = measured.load(DATABASE), Measured(example).load(DATABASE)
        for name, stream in ours.streams.items():
            assert stream.topic == theirs.streams[name].topic
            assert list(stream.columns) == list(theirs.streams[name].columns)
            assert stream.event_time == theirs.streams[name].event_time


def test_the_shops_recording_has_good_records_alone(tmp_path: Path) -> None:
    found = list(shop.recorded(tmp_path, 5_000, 1_000).messages())

    assert len(found) == pytest.approx(5_000, rel=0.05)
    assert {message.kind for message in found} == {Kind.ROW, Kind.PUNCTUATION}
    places = {(message.topic, message.partition) for message in found}
    assert len(places) == sum(shop.PARTITIONS.values())
    assert len({(message.topic, message.key, message.partition) for message in found}) == len(
        {(message.topic, message.key) for message in found}
    )


def test_records_of_sparks_batches_are_what_its_offsets_say() -> None:
    def progress(number: int, seconds: int, *sources: tuple[str | None, str]) -> dict[str, Any]:
        read = [{"startOffset": start, "endOffset": end} for start, end in sources]
        return {"batchId": number, "sources": read, "durationMs": {"triggerExecution": seconds}}

    class Query:
        recentProgress = (  # noqa: N815
            progress(
                1, 500, ('{"a": {"0": 2, "1": 3}}', '{"a": {"0": 4, "1": 3}}'), ("None", '{"b": {"0": 7}}')
            ),
            progress(2, 100, ('{"a": {"0": 4}}', '{"a": {"0": 4}}')),
            progress(0, 2000, (None, '{"a": {"0": 2, "1": 3}}')),
        )

    query: Any = Query()
    assert batches(query) == [{"records": 5, "seconds": 2.0}, {"records": 9, "seconds": 0.5}]
    query.recentProgress = query.recentProgress[:2]
    with pytest.raises(DisagreementError, match="1 batches told nothing of themselves; 0 is one"):
        batches(query)


def test_a_commit_is_as_old_as_its_log(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    made, added = '{"metaData": {}}', '{"add": {"path": "a%20b.parquet"}}'
    for number, actions in enumerate((made, added + '\n{"txn": {}}')):
        file = log / f"{number:020d}.json"
        file.write_text(actions)
        os.utime(file, (100 + number, 100 + number))
    (log / "_last_checkpoint").write_text("{}")

    assert commits(tmp_path) == [Commit(100, []), Commit(101, [tmp_path / "a b.parquet"])]


def test_a_result_is_late_from_its_later_row_on(tmp_path: Path) -> None:
    """In event time 2 s and 30 s after the beginning, which was at 1000; the former only warms up."""
    epoch = int(datetime.fromisoformat(EPOCH).replace(tzinfo=UTC).timestamp())
    stamps = {"items_listed_at": [1, 30], "bids_bid_at": [2, 20]}
    columns = {
        name: pa.array([(epoch + at) * 1_000_000 for at in found], pa.timestamp("us", "UTC"))
        for name, found in stamps.items()
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    versions = [Commit(1001.0, []), Commit(1031.5, [tmp_path / "rows.parquet"])]

    assert latency._latencies(versions, 1000.0, skipped=10, pace=1).tolist() == [pytest.approx(1.5)]
    assert latency._latencies(versions, 1000.0, skipped=0, pace=1).tolist() == pytest.approx([29.5, 1.5])
    assert latency._latencies(versions, 1000.0, skipped=10, pace=2).tolist() == [pytest.approx(16.5)]


def test_percentiles_are_of_all_results() -> None:
    assert latency.percentiles(np.arange(101.0)) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    with pytest.raises(EndmarkError, match="no result came"):
        latency.percentiles(np.zeros(0))


def test_a_share_is_one_of_the_highest_rate() -> None:
    with pytest.raises(ConfigError, match=re.escape("--share: 120 is not above 0 and at most 100")):
        latency.LatencyOptions(100, (50, 120), 1, 1, 10, 500, 1, Path())


def test_stages_add_up_to_the_first_output() -> None:
    heard = dict(zip(recovery.STAGES, (12.0, 12.5, 13.5, 17.0, 18.0), strict=True))
    first = FinishedBatch("auction", 7, "run", 21.0, {TASKS: 1.5, TABLE: 0.5}, {}, {})

    found = recovery.stages(10.0, heard, 20.5, first)

    assert sum(found.values()) == pytest.approx(10.5)
    assert list(found.values()) == [2.0, 0.5, 1.0, 3.5, 1.0, 0.5, 1.5, 0.5]


def test_an_even_feed_has_equal_distances() -> None:
    even = FeedOptions(minutes=0.1, rate=500, sellers=10, open_items=50, bad_rate=0, bursts=False)
    due = np.array([message.due_seconds for message in messages(even)])[: even.ticks]

    assert np.diff(due) == pytest.approx(1 / 500)
    assert due[0] == pytest.approx(1 / 1000)


def test_a_stack_is_as_long_as_its_parts() -> None:
    drawn = ET.fromstring(stacked("a < b", {"short": {"x": 1.0, "y": 1.0}, "long": {"y": 4.0}}))  # noqa: S314
    boxes = [(box.get("fill"), float(box.get("width", 0))) for box in drawn.findall(f"{SVG}rect")[1:]]
    (x, _), (y, _) = boxes[-2:]

    assert x != y
    assert boxes[:3] == [(x, 105.0), (y, 105.0), (y, 420.0)]
    starts = [float(box.get("x", 0)) for box in drawn.findall(f"{SVG}rect")[1:4]]
    assert starts == [150.0, 255.0, 150.0]
    assert {"a < b", "short", "long", "x", "y", "2.0", "4.0"} <= {
        text.text for text in drawn.findall(f"{SVG}text")
    }


def test_every_bench_has_its_tables_and_pictures() -> None:
    rate = {"runs": [10.0], "median": 10.0, "least": 10.0, "most": 10.0, "ratio": 1.0}
    pipeline_report = {
        "bench": "pipeline",
        "cells": [{"title": "auction", "contenders": {"endmark": rate, "flink-files": rate}}],
        "shares": {"wall": {"tasks": 80.0, "rest": 20.0}, "python": {"parse": 30.0, "rest": 70.0}},
    }
    seconds = {"p50": 0.5, "p95": 1.0, "p99": 2.0}
    load = {"share": 50.0, "rate": 1_000.0, "results": 12_345, "seconds": seconds, "feed_behind": 0.01}
    runs = [{"Python": 1.0, "query": 2.0}, {"Python": 3.0, "query": 6.0}, {"Python": 2.0, "query": 3.0}]
    recovery_report = {"bench": "recovery", "runs": {"start": runs, "kill -9": runs[:1]}}
    answers = {"requests_per_second": 199.8, "p50_milliseconds": 2.0, "p99_milliseconds": 31.0, "refused": 0}
    sidecar_report = {
        "bench": "sidecar",
        "cells": [{"title": "auction", "contenders": {"alone": rate, "asked": rate}}],
        "answers": [answers | {"sidecar_cores": 0.1}],
    }

    spent = {"wall": {"tasks": 6.0, "tables": 0.5}, "python": {"parse": 3.0}}
    more = {"wall": {"tasks": 7.0, "tables": 0.5}, "python": {"parse": 3.0, "aggregate": 1.0}}
    at_rate = {"seconds": seconds, "feed_behind": 0.02}
    stage_report = {
        "bench": "further-stage",
        "options": {"fed": 10_000.0},
        "cells": [{"title": "auction", "contenders": {"one stage": rate, "two stages": rate}}],
        "seconds": {"one stage": spent, "two stages": more},
        "latency": {"one stage": at_rate, "two stages": at_rate},
    }
    joined = {"rows_a_second": 2e6, "results": 1_234, "most_rows": 5_000, "most_bytes": 2_500_000}
    at_once = joined | {"rows_a_second": 8e6, "most_rows": 0, "most_bytes": 0}
    nary_report = {
        "bench": "nary-join",
        "workloads": {
            "two of each": {"one operator": joined, "chain of two": joined, "duckdb": at_once},
        },
    }

    rates, visible, wall, python = tables(stage_report)
    assert rates.headings[-1] == "one stage / this"
    assert visible.rows[1] == ["two stages", "0.50", "1.00", "2.00", "0.02"]
    assert wall.rows == [["tasks", "6.00", "7.00"], ["tables", "0.50", "0.50"], ["all", "6.50", "7.50"]]
    assert python.rows[:2] == [["parse", "3.00", "3.00"], ["aggregate", "0.00", "1.00"]]
    [nary] = tables(nary_report)
    assert nary.title == "two of each, 1,234 results"
    assert nary.rows[1:] == [
        ["chain of two", "2,000,000", "5,000", "2.5", "1.00"],
        ["duckdb", "8,000,000", "", "", "0.25"],
    ]
    for bench in ("three-streams", "lookup-alone"):
        assert tables(pipeline_report | {"bench": bench})[1:] == tables(pipeline_report)[1:]
    assert list(pictures(stage_report, "further-stage")) == ["further-stage-1.svg"]
    assert pictures(nary_report, "nary-join") == {}
    rates, wall, python = tables(pipeline_report)
    assert list(rates.headings)[-2:] == ["endmark / this", "does not give"]
    assert [row[-1] for row in rates.rows] == ["", "final groups, dead letters"]
    assert (wall.rows[0], python.rows[0]) == (["tasks", "80.0"], ["parse", "30.0"])
    [loads] = tables({"bench": "latency", "loads": [load]})
    assert loads.rows == [["50 %", "1,000", "0.50", "1.00", "2.00", "0.01", "12,345"]]
    steps = [{"rate": 900, "lag": 1.25, "feed_behind": 0.1}, {"rate": 1170, "lag": None, "feed_behind": 0.2}]
    [_, searched] = tables(
        {"bench": "latency", "loads": [load], "search": {"bound": "the job", "steps": steps}}
    )
    assert searched.title == "The highest rate, which ends at the job"
    assert searched.rows == [["900", "1.25", "0.10"], ["1,170", "no batch ended", "0.20"]]
    [stages] = tables(recovery_report)
    assert stages.headings == ("from", "start", "kill -9")
    assert stages.rows == [
        ["Python", "2.00", "1.00"],
        ["query", "3.00", "2.00"],
        ["all, median", "5.00", "3.00"],
        ["all, least", "3.00", "3.00"],
        ["all, most", "9.00", "3.00"],
    ]
    rates, asked = tables(sidecar_report)
    assert (rates.headings[-1], asked.rows) == ("alone / this", [["199.80", "2.00", "31.00", "0.10"]])
    assert pictures(sidecar_report, "sidecar") == {}
    assert list(pictures(pipeline_report, "pipeline")) == ["pipeline-1.svg", "pipeline-2.svg"]
    assert list(pictures({"bench": "latency", "loads": [load]}, "latency")) == ["latency-1.svg"]
    assert list(pictures(recovery_report, "recovery")) == ["recovery-1.svg"]
