"""What other memory would yield, by what the last batches have measured, as the sidecar tells it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from endmark.control.ops_database import forecasts
from endmark.control.ops_database.database import OpsDatabase
from endmark.operators.lookup.costs import JoinCosts
from endmark.operators.lookup.workload import Setup
from endmark.planning import lookup_model
from endmark_ops.app import create_app
from support.ops_client import OpsClient
from support.ops_job import API, PIPELINE, Job, costs_of, described_job, forecast_of

ROWS = 20_000.0
MEMORY = 8_000_000  # as in the pipeline file


@pytest.fixture
def database(tmp_path: Path) -> Iterator[OpsDatabase]:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as found:
        yield found


def what_ifs(database: OpsDatabase, query: str = "") -> list[dict[str, Any]]:
    client = OpsClient(create_app(str(database.engine.url), shared_seconds=0))
    found: list[dict[str, Any]] = client.get(f"{API}/what-ifs{query}").json()["what_ifs"]
    return found


@pytest.fixture
def job(database: OpsDatabase) -> Job:
    """It looks sellers up, and has told what the pipeline is made of; its batches look nothing up yet."""
    return described_job(database)


def turned(job: Job, offset: int, name: str, value: Any, refused: str | None = None) -> None:
    turn = {"partition": 0, "offset": offset, "set_at": 1.0, "by": "Ann", "name": name, "value": value}
    job.database.turns.record(
        PIPELINE, job.batch_id, [turn | {"refused": refused, "why": None}], {name: None}
    )


def test_nothing_is_said_before_a_batch_has_told_what_it_costs(database: OpsDatabase, job: Job) -> None:
    """There is no prediction without a batch, nor after one that stores no costs."""
    assert what_ifs(database) == []
    job.commit()
    assert what_ifs(database) == []


def test_it_is_the_cost_model_with_what_was_measured_and_turned(database: OpsDatabase, job: Job) -> None:
    """Each of two tasks has half of the memory and of the rows, less those of the cache."""
    job.commit(told=costs_of("sellers", ROWS))
    turned(job, 0, "steps.known.lookup.memory", 2 * MEMORY)
    turned(job, 1, "steps.known.lookup.memory", 7, "no")
    [found] = what_ifs(database, "?exponent=0.5")

    costs = JoinCosts(seek=3e-4, page=2e-3, row=1e-6 + 1e-7, trip=4e-4, key=1e-4, wait=1e-7)
    setup = Setup(500_000, 500, 1, 100, MEMORY, 0.5, round(ROWS / 2), scattered=True)
    assert (found["relation"], found["knob"], found["memory"]) == (
        "sellers",
        "steps.known.lookup.memory",
        2 * MEMORY,
    )
    assert (found["relation_rows"], found["page_rows"], found["batch_rows"]) == (500_000, 500, ROWS)
    assert found["waits"]
    assert found["costs"] == pytest.approx(
        {"seek": 3e-4, "page": 2e-3, "trip": 4e-4, "key": 1e-4, "row": 1e-6, "wait": 1e-7}
    )
    assert found["waiting"] == ["hybrid", "mesh"]
    assert [each["memory"] for each in found["by_memory"]] == [
        round(2 * MEMORY * part) for part in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16)
    ]
    for each in found["by_memory"]:
        its = replace(setup, memory=each["memory"] // 2)
        expected = {one.strategy: one.rate for one in lookup_model.predict(costs, its)}
        assert each["rates"] == pytest.approx(expected)


def test_the_strategy_in_force_is_beside_what_auto_would_choose(database: OpsDatabase, job: Job) -> None:
    """A page answers as many rows as the waiting ones allow, which fill a small part of the memory."""
    told = costs_of("sellers", ROWS) | {"lookup_cost_seconds{of=key,relation=sellers}": 1e-5}
    for waiting in (6_000.0, 2_000.0):
        job.commit(told=told | {"lookup_pending_rows{relation=sellers}": waiting})
    [found] = what_ifs(database)

    costs = JoinCosts(seek=3e-4, page=2e-3, row=1e-6 + 1e-7, trip=4e-4, key=1e-5, wait=1e-7)
    setup = Setup(500_000, 500, 1, 100, 2_000 * 100 + 500, 0.0, round(ROWS / 2), scattered=True)
    hybrid, batched = lookup_model.hybrid(costs, setup), lookup_model.at_once(costs, setup)
    assert (found["strategy"], found["paper"]) == ("hybrid", "HYBRIDJOIN")
    assert found["reads"] == "the pages of the oldest waiting rows"
    assert found["waiting_rows"] == 4_000.0
    assert found["in_force"] == pytest.approx(vars(hybrid) | {"reads": found["reads"]})
    [expected] = [each for each in batched if each.strategy == "batched"]
    assert found["auto"].pop("reads").startswith("the keys of the oldest waiting rows, in lists")
    assert found["auto"] == pytest.approx(vars(expected))
    assert found["auto"]["rate"] > 2 * found["in_force"]["rate"]


def test_a_strategy_without_waiting_rows_answers_at_once(database: OpsDatabase, job: Job) -> None:
    """A strategy without equations is named without a prediction."""
    job.commit(told=costs_of("sellers", ROWS) | {"lookup_pending_rows{relation=sellers}": 0.0})
    [hybrid] = what_ifs(database)
    turned(job, 0, "steps.known.lookup.strategy", "best_page")
    [best_page] = what_ifs(database)

    assert hybrid["in_force"]["strategy"] == "hybrid at once"
    assert (best_page["strategy"], best_page["paper"]) == ("best_page", "SSIJ")
    assert best_page["in_force"] is None
    assert best_page["auto"] == hybrid["auto"]


def test_it_follows_the_batches(database: OpsDatabase, job: Job) -> None:
    """Only batches that had rows count, the last ones of these."""
    job.commit(told=costs_of("sellers", ROWS))
    [before] = what_ifs(database)
    job.commit(told=costs_of("sellers", ROWS, page=4e-3))
    job.commit(told={"lookup_ordered_rows_total{relation=sellers}": 0.0})
    [after] = what_ifs(database)
    rates = [each["by_memory"][4]["rates"] for each in (before, after)]
    assert rates[1]["hybrid"] < 0.6 * rates[0]["hybrid"]
    assert rates[1]["batched"] == pytest.approx(rates[0]["batched"])


def test_skew_is_what_is_asked_for_or_as_planned(database: OpsDatabase, job: Job) -> None:
    job.commit(told=costs_of("sellers", ROWS))
    [even] = what_ifs(database)
    forecasts.store(database, PIPELINE, forecast_of("sellers").model_copy(update={"exponent": 1.0}))
    [planned], [asked] = what_ifs(database), what_ifs(database, "?exponent=0.5")
    assert [each["exponent"] for each in (even, planned, asked)] == [0.0, 1.0, 0.5]
    listed = [each["by_memory"][4]["rates"]["batched"] for each in (even, asked, planned)]
    assert listed == sorted(listed)
    assert listed[2] > 1.2 * listed[0]


@pytest.mark.parametrize("exponent", ["-1", "3.1", "nan", "inf", "much"])
def test_no_other_skew(database: OpsDatabase, job: Job, exponent: str) -> None:
    client = OpsClient(create_app(str(database.engine.url), shared_seconds=0))
    assert client.get(f"{API}/what-ifs?exponent={exponent}").status_code == 422
