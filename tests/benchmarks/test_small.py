"""The benches that start Spark, small: what they report, and that wrong answers end them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from endmark_benchmarks.measurements import pipeline


@pytest.fixture(scope="module", autouse=True)
def _with_tests() -> Iterator[None]:
    """Let measurements import `support`, as `make` does: some start its sidecar, store or registry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        yield


def lookup_join(recordings: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    small = ["--stream-rows=1200", "--relation-rows=5000", "--batch-rows=200", "--repeats=1", "--json"]
    return subprocess.run(
        [sys.executable, "-m", "endmark_benchmarks", "lookup-join", *small, *arguments],
        cwd=recordings,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def reported(recordings: Path) -> dict[str, Any]:
    sizes = ["--batch-rows=400", "--contender=spark-in-list", "--contender=spark-per-row"]
    ended = lookup_join(recordings, "--delay=1", *sizes)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


def test_contenders_are_compared_in_every_cell(reported: dict[str, Any]) -> None:
    """All gave DuckDB's answers, or there would be no report."""
    assert [(cell["keys"], cell["title"].split()[-2]) for cell in reported["cells"]] == [
        (keys, size) for size in ("200", "400") for keys in ("uniform", "zipf")
    ]
    assert "MariaDB" in reported["versions"]["mariadb"]
    for cell in reported["cells"]:
        found = cell["contenders"]
        assert list(found) == ["endmark-auto", "spark-in-list", "spark-per-row"]
        assert all(len(each["runs"]) == 1 and each["median"] > 0 for each in found.values())
        assert found["spark-in-list"]["ratio"] == pytest.approx(
            found["endmark-auto"]["median"] / found["spark-in-list"]["median"], abs=0.01
        )
    small, large = reported["cells"][0], reported["cells"][2]
    by_row = [cell["contenders"]["spark-per-row"]["runs"] for cell in (small, large)]
    assert by_row[0] == by_row[1]  # which no size of batches changes


def test_other_answers_than_duckdbs_end_it(reported: dict[str, Any], recordings: Path) -> None:
    """A digest of the recorded answers is changed, so the bench refuses to compare."""
    [digests] = recordings.glob("var/bench/*/digests.json")
    recorded = json.loads(digests.read_text())
    recorded["uniform"][0][1] += 1
    digests.write_text(json.dumps(recorded))

    ended = lookup_join(recordings, "--contender=endmark-auto")

    assert ended.returncode == 1
    error = json.loads(ended.stdout)["error"]
    assert error.startswith("endmark-auto gave 1,200 answers to uniform keys")
    assert error.endswith("there is nothing to compare")


@pytest.fixture(scope="module")
def bench(recordings: Path) -> Callable[..., dict[str, Any]]:
    """Runs a bench; the recording is shared."""

    def run(name: str, *arguments: str) -> dict[str, Any]:
        ended = subprocess.run(
            [sys.executable, "-m", "endmark_benchmarks", name, *arguments, "--json"],
            cwd=recordings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return dict(json.loads(ended.stdout))

    return run


def test_queries_of_nexmark_are_compared_with_sparks_own(bench: Callable[..., dict[str, Any]]) -> None:
    """All gave the same answers, or there would be no report."""
    small = ("--batches=3", "--batch-events=5000", "--rate=1000", "--repeats=1")
    report = bench("nexmark", "--query=q20", "--query=q8", *small)

    of_bids, of_persons = report["cells"]
    assert of_bids["title"] == "q20, bids with their auctions, 3,731 answers"
    assert list(of_bids["contenders"]) == ["endmark", "spark", "spark-bounded", "duckdb"]
    assert of_persons["title"].startswith("q8, new users who sell at once, ")
    assert list(of_persons["contenders"]) == ["endmark", "spark-bounded", "duckdb"]
    found = [each for cell in report["cells"] for each in cell["contenders"].values()]
    assert all(each["median"] > 0 for each in found)


def test_strategies_are_compared_where_rows_wait(bench: Callable[..., dict[str, Any]]) -> None:
    """All gave DuckDB's answers, or there would be no report. One read is all of R, so that it leaves none
    waiting: that once went on for ever."""
    cell = ("--rows=5000", "--exponent=1", "--delay=0", "--memory=2")
    report = bench("lookup-map", *cell, "--seconds=0.1", "--repeats=1")

    found = {(run["strategy"], run["waits"]): run["rate"] for run in report["runs"]}
    at_once = ["memory", "auto", "batched", "hybrid", "mesh", "scan", "inlj"]
    waiting = ["auto", "hybrid", "best_page", "mesh"]
    assert list(found) == [*((name, 0) for name in at_once), *((name, 2) for name in waiting)]
    assert min(found.values()) > 0


RECORDED = ("--records=3000", "--sellers=500", "--rate=500", "--repeats=1")


@pytest.mark.timeout(1200)  # seven contenders, of which two may have to be downloaded
def test_the_whole_pipeline_is_compared_with_all_contenders(bench: Callable[..., dict[str, Any]]) -> None:
    """All gave the same results as far as they give any, or there would be no report. There are more records
    than elsewhere, since Flink answers 3,000 at once, and so has no rate."""
    small = ("--records=30000", "--sellers=500", "--rate=5000", "--repeats=1")
    report = bench("pipeline", "--batch-records=10000", *small)

    assert report["options"]["results"] > 1_000
    [cell] = report["cells"]
    assert list(cell["contenders"]) == list(pipeline.CONTENDERS)
    assert all(each["median"] > 0 for each in cell["contenders"].values())
    for shares in report["shares"].values():
        assert sum(shares.values()) == pytest.approx(100, abs=1)
    assert {"parse", "pack", "lookup", "probe"} <= set(report["shares"]["python"])


def test_a_contender_with_other_results_ends_the_pipeline(
    bench: Callable[..., dict[str, Any]], recordings: Path
) -> None:
    """DuckDB reads a record that the topics do not have, so the bench refuses to compare."""
    only = ("--batch-records=1000", *RECORDED, "--contender=duckdb")
    bench("pipeline", *only)
    [bids] = recordings.glob("var/bench/auction-3000-*-texts/bids.json")
    lines = bids.read_bytes().splitlines(keepends=True)
    bids.write_bytes(b"".join([*lines, lines[0]]))

    command = [sys.executable, "-m", "endmark_benchmarks", "pipeline", *only, "--json"]
    ended = subprocess.run(command, cwd=recordings, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    error = json.loads(ended.stdout)["error"]
    assert error.startswith("duckdb gave results and groups of digests")
    assert error.endswith("there is nothing to compare")


def test_connections_are_compared(recordings: Path, tmp_path: Path) -> None:
    """All gave the same results, or there would be no report."""
    bench = [sys.executable, "-m", "endmark_benchmarks.measurements.connections", "--batch-records=1000"]
    found = tmp_path / "connections.json"

    subprocess.run([*bench, *RECORDED, f"--results={found}"], cwd=recordings, check=True)

    report = json.loads(found.read_text())
    assert report["options"]["results"] > 1_000
    [cell] = report["cells"]
    names = ["endmark", "tls-and-login", "avro", "s3"]
    assert list(cell["contenders"]) == list(report["seconds"]) == names
    assert all(each["median"] > 0 for each in cell["contenders"].values())
    for spent in report["seconds"].values():
        assert spent["wall"]["tasks"] > 0
        assert {"parse", "probe"} <= set(spent["python"])


def test_three_streams_are_compared_with_sparks_chain(bench: Callable[..., dict[str, Any]]) -> None:
    """All gave the same results, or there would be no report."""
    report = bench("three-streams", "--records=6000", "--batch-records=2000", "--rate=500", "--repeats=1")

    assert report["options"]["results"] > 800
    [cell] = report["cells"]
    assert list(cell["contenders"]) == ["endmark", "spark-rocksdb", "spark-heap"]
    assert all(each["median"] > 0 for each in cell["contenders"].values())
    assert {"parse", "pack", "probe"} <= set(report["shares"]["python"])


def test_a_lookup_alone_is_compared_with_sparks(bench: Callable[..., dict[str, Any]]) -> None:
    """All gave the same results, or there would be no report."""
    report = bench("lookup-alone", "--batch-records=1000", *RECORDED)

    assert report["options"]["results"] > 1_000
    [cell] = report["cells"]
    assert list(cell["contenders"]) == ["endmark", "spark-in-list", "spark-full-read"]
    assert all(each["median"] > 0 for each in cell["contenders"].values())
    assert {"parse", "lookup"} <= set(report["shares"]["python"])


def test_a_further_stage_has_its_cost(bench: Callable[..., dict[str, Any]]) -> None:
    """Both gave the same results and groups, or there would be no report."""
    fed = ("--fed=500", "--warm-seconds=3", "--seconds=3", "--latency-repeats=1")
    report = bench("further-stage", "--batch-records=1000", *RECORDED, *fed)

    [cell] = report["cells"]
    assert list(cell["contenders"]) == list(report["latency"]) == ["one stage", "two stages"]
    for load in report["latency"].values():
        assert 0 < load["seconds"]["p50"] <= load["seconds"]["p99"]
        assert load["results"] > 100
    for spent in report["seconds"].values():
        assert spent["wall"]["tasks"] > 0
        assert {"parse", "probe", "aggregate"} <= set(spent["python"])


def test_a_job_is_timed_from_its_start_and_from_its_kill(bench: Callable[..., dict[str, Any]]) -> None:
    report = bench("recovery", "--batch-records=500", "--batches=1", *RECORDED)

    for [run] in report["runs"].values():
        assert [stage for stage, seconds in run.items() if seconds < 0] == []
        assert 1 < sum(run.values()) < 300


def test_latency_is_that_of_what_came_after_the_warm_up(bench: Callable[..., dict[str, Any]]) -> None:
    fed = ("--highest=1000", "--share=50", "--warm-seconds=4", "--seconds=4", "--sellers=500", "--rate=500")
    report = bench("latency", *fed)

    [load] = report["loads"]
    assert load["rate"] == 500
    assert 500 < load["results"] < 4_000
    seconds = load["seconds"]
    assert 0 < seconds["p50"] <= seconds["p95"] <= seconds["p99"]


def test_a_sidecar_answers_beside_its_job(recordings: Path, tmp_path: Path) -> None:
    bench = [sys.executable, "-m", "endmark_benchmarks.measurements.sidecar", "--batch-records=500"]
    found = tmp_path / "sidecar.json"
    subprocess.run([*bench, *RECORDED, f"--results={found}"], cwd=recordings, check=True)

    report = json.loads(found.read_text())
    assert [len(each["runs"]) for each in report["cells"][0]["contenders"].values()] == [1, 1]
    [answers] = report["answers"]
    assert answers["refused"] == 0
    assert answers["requests_per_second"] == pytest.approx(200, rel=0.2)
    assert 0 < answers["p50_milliseconds"] <= answers["p99_milliseconds"]
    assert answers["sidecar_cores"] > 0


def test_a_profile_says_where_batches_spend_their_time(recordings: Path, tmp_path: Path) -> None:
    bench = [
        sys.executable,
        "-m",
        "endmark_benchmarks.measurements.batch_profile",
        "--files=9",
        "--rows=2000",
    ]
    found = tmp_path / "profile.json"

    subprocess.run([*bench, f"--results={found}"], cwd=recordings, check=True, capture_output=True)

    report = json.loads(found.read_text())
    for cores in report["cores"].values():
        assert sum(cores.values()) == pytest.approx(100, abs=1)
        assert cores["JVM, tasks"] > 0
        assert cores["Python, tasks"] > 0
    assert all(phases["triggerExecution"] > 0 for phases in report["wall"].values())
    assert sum(report["tasks"].values()) == pytest.approx(100, abs=1)


def test_batches_are_timed_by_the_rows_that_are_live(recordings: Path, tmp_path: Path) -> None:
    bench = [
        sys.executable,
        "-m",
        "endmark_benchmarks.measurements.live_state",
        "--rows=2000",
        "--measured=3",
    ]
    found = tmp_path / "live.json"

    subprocess.run([*bench, "--window=0.5", "--window=2", f"--results={found}"], cwd=recordings, check=True)

    windows = json.loads(found.read_text())["windows"]
    assert [each["live_rows"] for each in windows] == [2_000, 8_000]
    for each in windows:
        seconds = each["batch_seconds"]
        assert 0 < seconds["least"] <= seconds["median"] <= seconds["most"]


def test_the_join_alone_meets_its_extremes(tmp_path: Path) -> None:
    bench, found = "endmark_benchmarks.measurements.extremes", tmp_path / "extremes.json"

    subprocess.run([sys.executable, "-m", bench, f"--results={found}"], check=True, capture_output=True)

    scenarios = {name: each["figures"] for name, each in json.loads(found.read_text())["scenarios"].items()}
    assert [each["live rows"] for each in scenarios["live rows"]] == [100_000, 1_000_000, 10_000_000]
    assert scenarios["an interval"][0]["rows left"] < 10
    assert scenarios["a million closings"][0]["announced"] == 1_000_000
    assert scenarios["a hot key"][0]["results"] > 5_000_000
    assert scenarios["more than memory"][0]["results"] == 1_000_000
    assert scenarios["more than memory"][0]["most resident MB"] <= 16
