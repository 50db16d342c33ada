"""`endmark bench`, small: what it reports, and that wrong answers end it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from endmark.bench import lookup_input, lookup_map
from endmark.bench.contest import DisagreementError

SMALL_MAP = lookup_map.Options(
    rows=(2_000,), exponents=(0.0, 1.0), delays=(0.0,), memories=(1,), driver="pymysql", seconds=0.0
)


def lookup_join(recordings: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    small = ["--stream-rows=2000", "--relation-rows=5000", "--batch-rows=500", "--repeats=1", "--json"]
    return subprocess.run(
        [sys.executable, "-m", "endmark.cli", "bench", "lookup-join", *small, *arguments],
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
    ended = lookup_join(recordings, "--contender=spark-in-list", "--delay=1")
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


def test_contenders_are_compared_in_every_cell(reported: dict[str, Any]) -> None:
    """Both gave DuckDB's answers, or there would be no report."""
    assert [cell["keys"] for cell in reported["cells"]] == ["uniform", "zipf"]
    assert "MariaDB" in reported["versions"]["mariadb"]
    for cell in reported["cells"]:
        found = cell["contenders"]
        assert list(found) == ["endmark-auto", "spark-in-list"]
        assert all(len(each["runs"]) == 1 and each["median"] > 0 for each in found.values())
        assert found["spark-in-list"]["ratio"] == pytest.approx(
            found["endmark-auto"]["median"] / found["spark-in-list"]["median"], abs=0.01
        )


def test_other_answers_than_duckdbs_end_it(reported: dict[str, Any], recordings: Path) -> None:
    """As of input that was recorded before, one digest of which is changed."""
    [digests] = recordings.glob("var/bench/*/digests.json")
    recorded = json.loads(digests.read_text())
    recorded["uniform"][0][1] += 1
    digests.write_text(json.dumps(recorded))

    ended = lookup_join(recordings, "--contender=endmark-auto")

    assert ended.returncode == 1
    error = json.loads(ended.stdout)["error"]
    assert error.startswith("endmark-auto gave 2,000 answers to uniform keys")
    assert error.endswith("there is nothing to compare")


def test_every_strategy_is_in_every_cell_of_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup_map, "BATCH_ROWS", 1_000)
    said: list[str] = []

    report = lookup_map.measure_map(SMALL_MAP, said.append)

    at_once = [("memory", 0), *((name, 0) for name in lookup_map.AT_ONCE)]
    waiting = [(name, 1) for name in lookup_map.WAITING]
    runs = [(run["exponent"], run["strategy"], run["waits"]) for run in report["runs"]]
    assert runs == [(exponent, *each) for exponent in (0.0, 1.0) for each in at_once + waiting]
    # In so short a time none of those that wait need have answered any.
    assert all(run["rate"] > 0 for run in report["runs"] if not run["waits"])
    assert len(said) == 2
    assert "MariaDB" in report["versions"]["mariadb"]


def test_other_answers_than_duckdbs_end_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if R were not what DuckDB takes it for."""
    right = lookup_input.made(2_000)
    price = right.schema.get_field_index("price")
    wrong = right.set_column(price, "price", pc.add(right["price"], 1.0))
    monkeypatch.setattr(lookup_map, "BATCH_ROWS", 1_000)
    monkeypatch.setattr(lookup_input, "made", lambda _: wrong)

    with pytest.raises(DisagreementError, match="strategy='auto'"):
        lookup_map.measure_map(SMALL_MAP, print)


@pytest.fixture(scope="module")
def auction(recordings: Path) -> Callable[..., dict[str, Any]]:
    """Runs a bench on whole jobs; the recording is shared."""

    def run(bench: str, *arguments: str) -> dict[str, Any]:
        ended = subprocess.run(
            [sys.executable, "-m", "endmark.cli", "bench", bench, *arguments, "--json"],
            cwd=recordings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return dict(json.loads(ended.stdout))

    return run


RECORDED = ("--records=3000", "--sellers=500", "--rate=500", "--repeats=1")


def test_the_whole_pipeline_is_compared_with_sparks_own(auction: Callable[..., dict[str, Any]]) -> None:
    """Both gave the same results and groups, or there would be no report."""
    report = auction("pipeline", "--batch-records=1000", *RECORDED)

    assert report["options"]["results"] > 1_000
    [cell] = report["cells"]
    assert list(cell["contenders"]) == ["endmark", "spark"]
    assert all(each["median"] > 0 for each in cell["contenders"].values())
    for shares in report["shares"].values():
        assert sum(shares.values()) == pytest.approx(100, abs=1)
    assert {"parse", "pack", "lookup", "probe"} <= set(report["shares"]["python"])


def test_a_job_is_timed_from_its_start_and_from_its_kill(auction: Callable[..., dict[str, Any]]) -> None:
    report = auction("recovery", "--batch-records=500", "--batches=1", *RECORDED)

    for [run] in report["runs"].values():
        assert [stage for stage, seconds in run.items() if seconds < 0] == []
        assert 1 < sum(run.values()) < 300


def test_latency_is_that_of_what_came_after_the_warm_up(auction: Callable[..., dict[str, Any]]) -> None:
    fed = ("--highest=1000", "--share=50", "--warm-seconds=4", "--seconds=4", "--sellers=500")
    report = auction("latency", *fed)

    [load] = report["loads"]
    assert load["rate"] == 500
    assert 500 < load["results"] < 4_000
    seconds = load["seconds"]
    assert 0 < seconds["p50"] <= seconds["p95"] <= seconds["p99"]
