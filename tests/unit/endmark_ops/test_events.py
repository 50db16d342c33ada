"""What those who listen are told, and when; how many may."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.sse import ServerSentEvent

from endmark.control.ops_database.batches import FinishedBatch
from endmark_ops.answers import feed as feeds
from endmark_ops.answers import health
from endmark_ops.answers.feed import Feed, Feeds, FullError
from endmark_ops.readers.source import OpsReader, OpsSource, Snapshot
from support.ops_job import PIPELINE, Job, described_job

pytestmark = pytest.mark.timeout(300)


class Counted(OpsSource):
    """Counts its snapshots, and how often it reads batches."""

    looked = 0
    listed = 0

    def snapshot(self) -> Snapshot:
        self.looked += 1
        return super().snapshot()

    def batches(self, after: int, limit: int) -> Sequence[FinishedBatch]:
        self.listed += 1
        return super().batches(after, limit)


@pytest.fixture
def source(job: Job) -> Iterator[Counted]:
    reader = OpsReader(str(job.database.engine.url))
    yield Counted(reader, PIPELINE)
    reader.close()


def feed_of(source: OpsSource, stale_seconds: float = 60.0, stream_seconds: float = 30.0) -> Feed:
    return Feed(source, stale_seconds, read_seconds=0.01, stream_seconds=stream_seconds)


@asynccontextmanager
async def listening(feed: Feed) -> AsyncIterator[Callable[[], Any]]:
    """Gives what waits for the next event: its name, id and data."""
    with feed.joined():
        events = feed.listen()

        async def heard() -> tuple[str | None, str | None, Any]:
            event = await asyncio.wait_for(anext(events), 60)
            assert isinstance(event, ServerSentEvent)
            assert event.raw_data is not None
            assert event.retry == feeds.RETRY_MILLISECONDS
            return event.event, event.id, json.loads(event.raw_data)

        yield heard


def ids(data: Any) -> list[int]:
    return [batch["batch_id"] for batch in data["batches"]]


def test_news_come_at_once_and_whenever_the_job_tells_something(job: Job, source: Counted) -> None:
    async def scene() -> None:
        async with listening(feed_of(source)) as heard:
            name, at, data = await heard()
            assert (name, at, data["after"], ids(data)) == ("news", "0", -1, [0])
            assert data["status"]["state"] == "running"
            job.commit()
            name, at, data = await heard()
            assert (at, data["after"], ids(data)) == ("1", -1, [0, 1])
            job.database.batches.amend(PIPELINE, 1, {"compute_seconds": 77.0}, {})
            _, at, data = await heard()
            assert (at, ids(data)) == ("1", [0, 1][data["after"] + 1 :])
            assert data["batches"][-1]["samples"]["compute_seconds"] == 77.0
            job.database.runs.set_state(job.run_id, "failed", "no more")
            _, _, data = await heard()
            assert (data["status"]["state"], data["status"]["run"]["error"]) == ("failed", "no more")

    asyncio.run(scene())


def test_a_batch_of_another_checkpoint_is_told_in_place_of_what_was(job: Job, source: Counted) -> None:
    """Its id is not above what was told, so `after` goes back as well."""

    async def scene() -> None:
        for _ in range(5):
            job.commit()
        async with listening(feed_of(source)) as heard:
            await heard()
            job.database.runs.set_state(job.run_id, "stopped")
            job.run_id, job.batch_id = "run-2", 2
            job.database.runs.start(job.run_id, PIPELINE, "another app", "/another")
            job.commit()
            _, at, data = await heard()
            assert (at, data["after"], ids(data)) == ("3", 2, [3])

    asyncio.run(scene())


def test_time_alone_makes_a_run_stale(job: Job, source: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that is ahead when it is told to be; the driver is there all the time."""
    ahead = 0.0

    def snapshot() -> Snapshot:
        found = Counted.snapshot(source)
        return replace(found, now=found.now + ahead, alive_at=found.now + ahead)

    monkeypatch.setattr(source, "snapshot", snapshot)

    async def scene() -> None:
        nonlocal ahead
        job.commit()
        async with listening(feed_of(source, stale_seconds=60)) as heard:
            states = [(await heard())[2]["status"]["state"]]
            ahead = 61.0
            states.append((await heard())[2]["status"]["state"])
        assert states == ["running", "stale"]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("lag", "state", "reasons"), [(None, "stale", 1), ({"bids": 1}, "stale", 1), ({"bids": 0}, "running", 0)]
)
def test_a_job_without_records_to_read_is_not_stale(
    job: Job, source: Counted, lag: dict[str, int] | None, state: str, reasons: int
) -> None:
    """It has nothing to commit, so it is ready, too."""
    job.commit()
    found = source.snapshot()
    later = replace(found, now=found.now + 61, alive_at=found.now + 61, lag=lag)

    assert health.state(later, 60) == state
    assert len(health.reasons_not_ready(later, 60)) == reasons


def test_a_job_is_not_stale_before_its_next_batch(job: Job, source: Counted) -> None:
    """With `batch.every: 2m`, records wait for up to two minutes, and nothing is wrong."""
    described_job(job.database).commit()
    described = job.database.pipelines.description(PIPELINE) or {}
    described["fields"]["batch"]["every"] = 120.0
    job.database.pipelines.describe(PIPELINE, described)
    found = source.snapshot()
    states = {}
    for age in (239, 241):
        later = replace(found, now=found.now + age, alive_at=found.now + age, lag={"bids": 1})
        states[age] = health.state(later, 60), bool(health.reasons_not_ready(later, 60))

    assert states == {239: ("running", False), 241: ("stale", True)}


def test_many_listen_to_one_reader(job: Job, source: Counted) -> None:
    """Who comes later hears what is true then, and nobody else hears of it."""

    async def scene() -> None:
        feed = feed_of(source)
        async with listening(feed) as first:
            _, _, told = await first()
            await asyncio.sleep(0.3)
            looked, begun = source.looked, time.monotonic()
            async with listening(feed) as second, listening(feed) as third:
                _, _, told_later = await second()
                await third()
                assert told_later["status"]["now"] > told["status"]["now"] + 0.2
                waiting = asyncio.ensure_future(first())
                listed = source.listed
                await asyncio.sleep(0.3)
                while source.looked - looked <= 5:
                    await asyncio.sleep(0.01)
                assert not waiting.done()
                assert source.listed == listed  # there is nothing new
                # 0.3 s have room for 30 reads of one reader.
                assert source.looked - looked < 40 * (time.monotonic() - begun) / 0.3
                job.commit()
                assert [(await waiting)[1], (await second())[1], (await third())[1]] == ["1"] * 3
        looked = source.looked
        await asyncio.sleep(0.1)
        assert source.looked <= looked + 1  # nobody listens

    asyncio.run(scene())


def test_who_is_slow_has_the_newest_only_and_sees_what_is_missing(job: Job, source: Counted) -> None:
    async def scene() -> None:
        feed = feed_of(source)
        async with listening(feed) as slow, listening(feed) as quick:
            await slow()
            for _ in range(3):
                await quick()
                job.commit()
            while (await quick())[1] != "3":
                pass
            _, at, data = await slow()
            assert (at, data["after"], ids(data)) == ("3", 1, [2, 3])

    asyncio.run(scene())


def test_no_more_listen_than_may(source: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "LISTENERS", 2)

    async def scene() -> None:
        made = []

        def make(name: str) -> Feed:
            made.append(name)
            return feed_of(source)

        places = Feeds(make)
        with places.listening("orders") as feed:
            with places.listening("sales") as other:
                assert other is not feed
                with pytest.raises(FullError, match="2 listen already"), places.listening("orders"):
                    pass
            with places.listening("orders") as again:
                assert again is feed
        with places.listening("orders") as later, places.listening("sales"):
            assert later is not feed
            with pytest.raises(FullError, match="2 listen already"), places.listening("orders"):
                pass
        places.close()
        with pytest.raises(FullError, match="about to end"), places.listening("orders"):
            pass

    asyncio.run(scene())


def test_a_database_that_cannot_be_read_is_a_problem_until_it_can(
    job: Job, source: Counted, tmp_path: Path
) -> None:
    async def scene() -> None:
        async with listening(feed_of(source)) as heard:
            await heard()
            with job.database.engine.begin() as connection:
                connection.exec_driver_sql("ALTER TABLE runs RENAME TO gone")
            name, at, data = await heard()
            assert (name, at) == ("problem", None)
            assert "cannot read the ops database" in data["detail"]
            with job.database.engine.begin() as connection:
                connection.exec_driver_sql("DROP TABLE IF EXISTS runs")
                connection.exec_driver_sql("ALTER TABLE gone RENAME TO runs")
            while name != "news":  # the table was made anew meanwhile
                name, at, data = await heard()
            while data["status"]["state"] != "running":
                name, at, data = await heard()

    asyncio.run(scene())


def test_a_reader_that_fails_ends_the_streams(source: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than leave those who listen with nothing."""

    def broken() -> Snapshot:
        raise RuntimeError("broken")

    monkeypatch.setattr(source, "snapshot", broken)

    async def scene() -> list[ServerSentEvent]:
        feed = feed_of(source)
        with feed.joined():
            return [event async for event in feed.listen()]

    assert asyncio.run(asyncio.wait_for(scene(), 60)) == []
