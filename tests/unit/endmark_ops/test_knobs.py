"""Knobs over HTTP: what there is, what holds, and control records on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.tuning.changes import LINES
from endmark.control.tuning.knobs import filed, steps_of
from endmark.driver.topics import make_topic
from endmark.embedded.broker import Broker
from endmark.verify.read.consume import Log
from endmark_ops.app import create_app
from endmark_ops.reach import Reach
from support.ops_client import OpsClient
from support.ops_tokens import BOTH, READER, WRITE_ONLY, WRITER, bearer
from support.verify_world import make_pipeline

# Connections to port 1 of this host are refused at once.
NOBODY = "127.0.0.1:1"
API = "/api/pipelines/small"


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[OpsDatabase]:
    database = OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")
    yield database
    database.close()


def client(ops: OpsDatabase, bootstrap: str | None) -> OpsClient:
    return OpsClient(
        create_app(str(ops.engine.url), reach=Reach(WRITE_ONLY, bootstrap)), headers=bearer(WRITER)
    )


def told(offset: int, name: str, value: Any, refused: str | None = None) -> dict[str, Any]:
    place = {"partition": 0, "offset": offset, "set_at": 7.0, "by": "Ann"}
    return place | {"name": name, "value": value, "refused": refused}


def test_knobs_are_told_with_what_they_may_be_and_are(ops: OpsDatabase) -> None:
    pipeline = make_pipeline(looking={"time_per_batch": "1500ms"})
    ops.pipelines.describe("small", describe(pipeline).model_dump())
    turns = [
        told(0, "steps.known.lookup.strategy", "scan"),
        told(1, "steps.known.lookup.strategy", "sacn", "there is none"),
    ]
    turns[0] |= {"why": "it is cheaper"}
    ops.turns.record("small", 4, turns, filed(steps_of(pipeline)))
    found = client(ops, None).get(f"{API}/knobs").json()

    knobs = {knob["name"]: knob for knob in found["knobs"]}
    strategy, pages, time, memory, every, of_join, records, pace = knobs.values()
    assert strategy["choices"][:3] == ["auto", "hybrid", "best_page"]
    assert [strategy[key] for key in ("default", "filed", "value", "turned")] == [
        "auto",
        "auto",
        "scan",
        True,
    ]
    assert [pages[key] for key in ("kind", "default", "choices")] == ["number", 500, []]
    assert [time[key] for key in ("kind", "default", "filed", "value")] == ["duration", None, 1.5, 1.5]
    assert [memory[key] for key in ("kind", "filed")] == ["size", 64_000_000]
    assert [every[key] for key in ("kind", "filed", "applies", "turned")] == ["number", 1, "live", False]
    assert [of_join[key] for key in ("kind", "default", "filed")] == ["size", None, None]
    assert [(knob["kind"], knob["filed"]) for knob in (records, pace)] == [
        ("number", 500_000),
        ("duration", 1.0),
    ]
    assert all(knob["effect"].endswith(".") for knob in knobs.values())
    assert {field["name"]: field["change"] for field in found["fields"]} == {
        name: rule.change for name, rule in LINES.items()
    }
    history = [(turn["offset"], turn["before"], turn["refused"], turn["why"]) for turn in found["history"]]
    assert history == [(1, "scan", "there is none", None), (0, "auto", None, "it is cheaper")]
    assert len(client(ops, None).get(f"{API}/knobs?limit=1").json()["history"]) == 1


def test_knobs_are_turned_and_turned_back_by_control_records(ops: OpsDatabase, broker: Broker) -> None:
    """Whoever has the token is named, whatever the request says besides."""
    described = describe(make_pipeline(looking={"time_per_batch": "3s"}))
    ops.pipelines.describe(
        "dials", described.model_copy(update={"control_topic": "dials-control"}).model_dump()
    )
    make_topic(broker.bootstrap, "dials-control")
    api = client(ops, broker.bootstrap)
    dials = "/api/pipelines/dials/knobs"
    name = "steps.known.lookup.time_per_batch"
    never = api.post(f"{dials}/{name}/revert", json={})
    sent = api.put(f"{dials}/{name}", json={"value": "500ms"})
    ops.turns.record("dials", 1, [told(0, name, 0.5), told(1, name, 7.0)], {name: 3.0})
    answers = [
        api.post(f"{dials}/{name}/revert", json={"by": "Zoë"}),
        api.post(f"{dials}/{name}/revert", json={"to": "file"}),
        api.put(f"{dials}/{name}", json={"value": None}),
    ]

    assert (never.status_code, "was never turned" in never.json()["detail"]) == (409, True)
    assert sent.json() == {"topic": "dials-control", "partition": 0, "offset": 0, "by": "ann"}
    assert [(answer.status_code, answer.json()["offset"]) for answer in answers] == [
        (202, 1),
        (202, 2),
        (202, 3),
    ]
    with Log(broker.bootstrap, ["dials-control"]) as log:
        records = [
            json.loads(value) for batch in log.batches() for value in batch.column("value").to_pylist()
        ]
    assert records == [
        {"set": {name: value}, "by": by}
        for value, by in [("500ms", "ann"), (0.5, "Zoë (ann)"), (3.0, "ann"), (None, "ann")]
    ]


def test_a_turn_that_the_job_has_not_read_is_not_undone(ops: OpsDatabase, broker: Broker) -> None:
    """Undo took the value before the turn that the job had read last, which nobody meant."""
    described = describe(make_pipeline())
    ops.pipelines.describe(
        "soon", described.model_copy(update={"control_topic": "soon-control"}).model_dump()
    )
    make_topic(broker.bootstrap, "soon-control")
    api = client(ops, broker.bootstrap)
    knob = "/api/pipelines/soon/knobs/batch.records"
    offset = api.put(knob, json={"value": 600}).json()["offset"]
    first = api.post(f"{knob}/revert", json={})
    ops.turns.record("soon", 1, [told(offset, "batch.records", 600)], {"batch.records": 500})
    wrong = api.put(knob, json={"value": 6}).json()["offset"]
    early = api.post(f"{knob}/revert", json={})
    elsewhere = api.post("/api/pipelines/soon/knobs/batch.every/revert", json={})
    ops.turns.record("soon", 2, [told(wrong, "batch.records", 6)], {"batch.records": 500})
    undone = api.post(f"{knob}/revert", json={})

    assert (first.status_code, early.status_code) == (409, 409)
    assert f"at offset {offset} yet" in first.json()["detail"]
    assert f"the job has not read the turn of batch.records at offset {wrong} yet" in early.json()["detail"]
    assert "was never turned" in elsewhere.json()["detail"]
    assert undone.status_code == 202
    with Log(broker.bootstrap, ["soon-control"]) as log:
        records = [
            json.loads(value) for batch in log.batches() for value in batch.column("value").to_pylist()
        ]
    assert [record["set"]["batch.records"] for record in records] == [600, 6, 600]


@pytest.mark.parametrize(
    ("name", "body", "status", "says"),
    [
        (
            "steps.known.lookup.mist",
            {"value": 1},
            404,
            "'steps.known.lookup.mist' is no knob; there are steps.known.lookup.strategy, ",
        ),
        (
            "steps.known.lookup.miss",
            {"value": "nulls"},
            409,
            "takes a new checkpoint: stop the job, change the file",
        ),
        (
            "steps.known.lookup.cache",
            {"value": {}},
            409,
            "takes a restart (whether there is one): change the file, and start the job",
        ),
        (
            "steps.known.lookup.strategy",
            {"value": "sacn"},
            400,
            "steps.known.lookup.strategy: Input should be 'auto', 'hybrid'",
        ),
        (
            "steps.matched.purge_every",
            {"value": 0},
            400,
            "steps.matched.purge_every: Input should be greater than",
        ),
        ("steps.matched.purge_every", {"value": 2}, 503, "no Kafka broker at 127.0.0.1:1 takes a record"),
        ("steps.matched.purge_every", {"value": 2, "by": "A\n"}, 422, "letters that can be printed"),
        ("steps.matched.purge_every", {}, 422, "Field required"),
    ],
)
def test_what_cannot_be_is_refused_with_why(
    ops: OpsDatabase, name: str, body: dict[str, Any], status: int, says: str
) -> None:
    ops.pipelines.describe("small", describe(make_pipeline()).model_dump())
    answer = client(ops, NOBODY).put(f"{API}/knobs/{name}", json=body)

    assert answer.status_code == status
    assert says in str(answer.json()["detail"])


def test_without_a_job_or_a_broker_there_is_nothing_to_turn(ops: OpsDatabase) -> None:
    before = client(ops, NOBODY)
    assert before.get(f"{API}/knobs").status_code == 404
    ops.runs.start("run-1", "small", "app", "/checkpoint")
    assert before.get(f"{API}/knobs").json() | {"fields": []} == {"knobs": [], "fields": [], "history": []}
    assert "start one first" in before.put(f"{API}/knobs/x", json={"value": 1}).json()["detail"]
    ops.pipelines.describe("small", describe(make_pipeline()).model_dump())
    refused = client(ops, None).put(f"{API}/knobs/join.purge_every", json={"value": 2})
    assert (refused.status_code, "--bootstrap" in refused.json()["detail"]) == (409, True)


def test_a_request_that_cannot_be_written_as_json_is_answered(ops: OpsDatabase) -> None:
    """The answer leaves the body out, since it may hold letters and numbers that JSON does not have."""
    ops.pipelines.describe("small", describe(make_pipeline()).model_dump())
    for body in (b'{"value": 1, "by": NaN}', b'{"value": 1, "by": "\\ud800"}', b'{"value"'):
        answer = client(ops, NOBODY).put(
            f"{API}/knobs/x", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 422
        assert {"loc", "msg", "type"} == answer.json()["detail"][0].keys()


def test_a_description_has_no_secrets() -> None:
    pipeline = make_pipeline()
    told = describe(pipeline).model_dump_json()

    assert [name for name in pipeline.relations if pipeline.relations[name].url in told] == []
    assert json.loads(told)["topics"] == {name: pipeline.streams[name].topic for name in pipeline.sides}


def test_a_reader_sees_knobs_but_turns_none(ops: OpsDatabase) -> None:
    ops.runs.start("run-1", "small", "app", "/checkpoint")
    api = OpsClient(create_app(str(ops.engine.url), reach=Reach(BOTH)), headers=bearer(READER))

    assert api.get(f"{API}/knobs").status_code == 200
    assert api.put(f"{API}/knobs/x", json={"value": 1}).status_code == 403
