"""`POST /api/pipelines/NAME/why`: a question to the job, and its answer in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from endmark.control.description import describe
from endmark.control.ops_database.answers import Answers
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.questions import ask as questions
from endmark_ops.app import create_app
from endmark_ops.reach import Reach
from endmark_ops.routes import why
from support.bucket_tasks import BucketTasks, Located
from support.key_answers import answers_of
from support.ops_client import OpsClient
from support.ops_tokens import WRITE_ONLY, WRITER, bearer
from support.verify_world import close, item, locate, make_pipeline

Sent = list[tuple[str, bytes | None]]


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[OpsDatabase]:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as database:
        database.pipelines.describe("small", describe(make_pipeline()).model_dump())
        yield database


@pytest.fixture
def sent(ops: OpsDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sent:
    """The records that are sent to the control topic. The tasks of buckets answer each of them at once."""
    tasks = BucketTasks(make_pipeline(lookup="items"), [(1, "Ann", 4.5)], 2, tmp_path)
    tasks.batch(locate([item(1, 7), close("items", 1)]))
    came: Sent = []

    def send(_bootstrap: str, topic: str, record: bytes | None) -> int:
        offset = len(came)
        came.append((topic, record))
        question: Located = (topic, 0, offset, record, 0)
        tasks.batch([question])
        ops.answers.record("small", 4, answers_of(tasks))
        return offset

    monkeypatch.setattr(questions, "send", send)
    return came


def asking(ops: OpsDatabase, body: dict[str, Any], bootstrap: str | None = "broker") -> tuple[int, Any]:
    reach = Reach(WRITE_ONLY, bootstrap)
    client = OpsClient(create_app(str(ops.engine.url), reach=reach), headers=bearer(WRITER))
    answer = client.post("/api/pipelines/small/why", json=body)
    return answer.status_code, answer.json()


def test_the_answer_is_that_of_the_job(ops: OpsDatabase, sent: Sent) -> None:
    ops.runs.start("run", "small", "app", "/checkpoint")
    status, found = asking(ops, {"key": {"item_id": "1"}, "by": "Zoë"})

    assert (status, found["batch_id"]) == (200, 4)
    (answer,) = found["answers"]
    assert (answer["step"], answer["open"], answer["final"]) == ("matched", True, False)
    assert answer["sentences"][0].startswith("item_id=1 is open in matched because bids has not closed it: ")
    assert len(answer["sentences"]) == 3
    assert sent == [("small-control", '{"ask": {"item_id": 1}, "by": "Zoë (ann)"}'.encode())]


def test_what_cannot_be_asked_is_refused(
    ops: OpsDatabase, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that no step has, a sidecar without a broker, and a job that does not run, or not answer."""
    for key, says in [({"item": "1"}, "no step has this key"), ({"item_id": "x"}, "'x' is no long")]:
        status, found = asking(ops, {"key": key})
        assert (status, says in found["detail"]) == (400, True)
    assert asking(ops, {"key": {"item_id": "1"}}, None)[0] == 409
    assert asking(ops, {"key": {"item_id": "1"}})[1]["detail"].startswith("no job of small runs")
    assert sent == []
    ops.runs.start("run", "small", "app", "/checkpoint")
    monkeypatch.setattr(why, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(Answers, "find", lambda *_: None)
    status, found = asking(ops, {"key": {"item_id": "1"}})
    assert (status, "has not answered in 0 s" in found["detail"]) == (409, True)
