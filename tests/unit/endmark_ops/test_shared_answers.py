"""Answers that several callers share: how often they are made, for whom, and what becomes of failures."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from endmark.control.description import Description
from endmark.control.ops_database.database import OpsDatabase
from endmark_ops import routes
from endmark_ops.app import create_app
from endmark_ops.http.access import parse_tokens
from endmark_ops.http.shared_answers import SharedAnswers
from endmark_ops.reach import Reach
from endmark_ops.readers.source import OpsSource
from support.ops_client import OpsClient
from support.ops_job import API, PIPELINE, Job

READER = "reader-0123456789"
TOLD = Description(
    topics={},
    steps=[],
    tables=[],
    published=[],
    whole_topics=[],
    binary_topics=[],
    control_topic="control",
    keys=[],
    fields={},
    lookups=[],
    join=None,
    windows={},
    states=[],
    gaps=[],
)


class Counting:
    """An application that numbers its answers, each of which takes `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.made = 0
        self._seconds = seconds

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.made += 1
        number = self.made
        await asyncio.sleep(self._seconds)
        if scope["path"] == "/broken":
            raise RuntimeError("broken")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(number).encode()})


async def asked(app: SharedAnswers, path: str = "/shared", **scope: object) -> str:
    got: list[Message] = []

    async def send(message: Message) -> None:
        got.append(message)
        message["headers"] = "of middleware outside"

    async def receive() -> Message:
        raise AssertionError("nothing reads a body")

    plain = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
    await app(plain | scope, receive, send)
    assert got[0]["type"] == "http.response.start"
    return bytes(got[1]["body"]).decode()


def sharing(app: Counting, seconds: float = 60.0) -> SharedAnswers:
    return SharedAnswers(app, ["/shared", "/broken"], seconds)


def test_those_who_ask_at_once_get_one_answer() -> None:
    counting = Counting(seconds=0.05)
    shared = sharing(counting)

    async def crowd() -> list[str]:
        return await asyncio.gather(*(asked(shared) for _ in range(20)))

    assert set(asyncio.run(crowd())) == {"1"}
    assert counting.made == 1


class Clock:
    """Stands still until `now` is changed."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which answers age."""
    clock = Clock()
    monkeypatch.setattr("endmark_ops.http.shared_answers.time", clock)
    return clock


def test_an_answer_ages(clock: Clock) -> None:
    shared = sharing(Counting(), seconds=0.1)

    async def later() -> list[str]:
        found = [await asked(shared), await asked(shared)]
        clock.now += 0.11
        return [*found, await asked(shared)]

    assert asyncio.run(later()) == ["1", "1", "2"]


def test_an_answer_that_takes_long_is_not_waited_for_for_ever(clock: Clock) -> None:
    """Age counts from when it was begun, so that no answer tells what was so long before the question."""
    shared = sharing(Counting(seconds=0.2), seconds=0.1)

    async def slow() -> list[str]:
        first = asyncio.ensure_future(asked(shared))
        await asyncio.sleep(0)
        clock.now += 0.12
        return [await asked(shared), await first]

    assert asyncio.run(slow()) == ["2", "1"]


@pytest.mark.parametrize(
    "other",
    [
        {"query_string": b"limit=3"},
        {"headers": [(b"accept", b"text/plain")]},
        {"path": "/alone"},
        {"method": "PUT"},
    ],
)
def test_other_questions_have_answers_of_their_own(other: dict[str, object]) -> None:
    shared = sharing(Counting())

    async def both() -> list[str]:
        return [await asked(shared), await asked(shared, **other), await asked(shared)]  # type: ignore[arg-type]

    assert asyncio.run(both()) == ["1", "2", "1"]


def test_who_goes_away_takes_no_answer_along() -> None:
    shared = sharing(Counting(seconds=0.05))

    async def leaving() -> str:
        first = asyncio.ensure_future(asked(shared))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(asked(shared))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(leaving()) == "1"


def test_a_failure_reaches_all_who_wait() -> None:
    shared = sharing(Counting(seconds=0.01))

    async def crowd() -> list[str | BaseException]:
        return await asyncio.gather(*(asked(shared, "/broken") for _ in range(3)), return_exceptions=True)

    assert [str(each) for each in asyncio.run(crowd())] == ["broken"] * 3


def test_old_answers_are_forgotten() -> None:
    """Each batch makes the dashboard ask for another one."""
    shared = sharing(Counting(), seconds=0.0)

    async def many() -> None:
        for number in range(50):
            await asked(shared, query_string=b"after=%d" % number)

    asyncio.run(many())
    assert len(shared._answers) == 1


def test_the_sidecar_shares_what_is_asked_for_again_and_again(tmp_path: Path) -> None:
    """A caller without a token is refused all the same."""
    database = OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")
    job = Job(database)
    job.start()
    job.commit()
    reach = Reach(parse_tokens(f"reader:read:{READER}", "here"))
    app = create_app(str(database.engine.url), reach=reach, shared_seconds=60)
    paths = ["/metrics", f"{API}/status", f"{API}/batches", API]
    with OpsClient(app, headers={"Authorization": f"Bearer {READER}"}) as client:
        before = [client.get(path) for path in paths]
        assert client.get("/readyz").json()["ready"]
        job.commit()
        database.pipelines.describe(PIPELINE, TOLD.model_dump())
        database.runs.set_state(job.run_id, "failed")
        assert [client.get(path).text for path in paths] == [answer.text for answer in before]
        assert {answer.headers["X-Frame-Options"] for answer in before} == {"DENY"}
        assert len(client.get(f"{API}/batches?after=-1").json()["batches"]) == 2
        assert not client.get("/readyz").json()["ready"]
        assert client.get("/metrics", headers={"Authorization": ""}).status_code == 401
    database.close()


def test_large_answers_are_made_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers with batches have one limit, and answers with dead letters have another one."""
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    with closing(OpsDatabase(url)) as database:
        database.pipelines.describe(PIPELINE, TOLD.model_dump())
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def slow(kind: str) -> list[object]:
        running[kind] += 1
        most[kind] = max(most[kind], running[kind])
        time.sleep(0.05)
        running[kind] -= 1
        return []

    monkeypatch.setattr(OpsSource, "batches", lambda *_: slow("batches"))
    monkeypatch.setattr(routes.dead_letters, "dead_letters", lambda *_: slow("letters"))
    app = create_app(url, reach=Reach(warehouse=str(tmp_path)))

    async def scene() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            large = [f"{API}/batches?limit={number}" for number in range(1, 4)] + [f"{API}/dead-letters"] * 3
            return [each.status_code for each in await asyncio.gather(*map(client.get, large))]

    assert asyncio.run(scene()) == [200] * 6
    assert most == {"batches": 1, "letters": 1}
