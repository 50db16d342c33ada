"""Knobs: what may be turned, when it counts, and who is said to have done it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from endmark.control.ops_database.database import OpsDatabase
from endmark.control.tuning.knobs import about_knob, filed, knobs_of, stale, steps_of, turned
from endmark.driver.pace import Pace
from endmark.driver.topics import make_topic
from endmark.embedded.broker import Broker
from endmark.errors import ConfigError
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.verify.read.consume import Log
from support.bucket_tasks import BUCKETS
from support.commands import endmark
from support.knob_turns import Turning, keys_of
from support.verify_world import bid, close, item, make_pipeline


def test_values_are_those_of_the_file() -> None:
    pipeline = make_pipeline(looking={"time_per_batch": "2s"})

    assert filed(steps_of(pipeline)) == {
        "steps.known.lookup.strategy": "auto",
        "steps.known.lookup.page_rows": 500,
        "steps.known.lookup.time_per_batch": 2.0,
        "steps.known.lookup.memory": 64_000_000,
        "steps.matched.purge_every": 1,
        "steps.matched.memory": None,
        "batch.records": 500_000,
        "batch.every": 1.0,
    }
    assert list(filed(steps_of(pipeline))) == knobs_of(steps_of(pipeline))


def test_a_stream_has_a_knob_of_what_it_says_of_time() -> None:
    steps = steps_of(make_pipeline(idle=(None, 10)))
    name = "streams.bids.event_time.idle"

    assert [each for each in knobs_of(steps) if each.startswith("streams")] == [name]
    assert (filed(steps)[name], turned(steps, name, "90s"), turned(steps, name, 7)) == (10.0, 90.0, 7.0)
    assert [about_knob(steps, name)[part] for part in ("default", "applies")] == [None, "turn"]
    for other, to, says in [
        (name, None, "a job that has such a time cannot go on without"),
        (
            "streams.items.event_time.idle",
            "5s",
            "the pipeline file does not set it, .* takes a new checkpoint",
        ),
        ("streams.bids.event_time.column", "at", "no knob, since another value takes a new checkpoint"),
        ("streams.bids.event_time.lateness", "9s", r"takes a new checkpoint \(rows are checked against it"),
    ]:
        with pytest.raises(ConfigError, match=says):
            turned(steps, other, to)


def test_a_cache_has_knobs_where_there_is_one() -> None:
    """Beside those of its lookup; `cache` is a name, too."""
    one = steps_of(make_pipeline(looking={"cache": {"lifetime": "90s"}}))
    ranks = steps_of(make_pipeline(others={"ranks": {"stream": "items", "key": "seller_id", "cache": {}}}))
    cached = {name: value for name, value in filed(one).items() if "cache" in name}

    assert cached == {
        "steps.known.lookup.cache.memory": 64_000_000,
        "steps.known.lookup.cache.lifetime": 90.0,
        "steps.known.lookup.cache.absent_lifetime": 10.0,
    }
    assert [name for name in knobs_of(ranks) if "cache" in name] == [
        name.replace("known", "of_ranks") for name in cached
    ]
    assert turned(one, "steps.known.lookup.cache.lifetime", "2m") == 120.0
    assert turned(ranks, "steps.of_ranks.lookup.cache.memory", "1MB") == 1_000_000
    assert about_knob(ranks, "steps.of_ranks.lookup.cache.lifetime")["default"] == 300.0
    with pytest.raises(
        ConfigError, match=r"steps\.known\.lookup\.cache\.memory: this lookup has no cache; give"
    ):
        turned(ranks, "steps.known.lookup.cache.memory", "1MB")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "steps.known.lookup.mist",
            1,
            "'steps.known.lookup.mist' is no knob; there are steps.known.lookup.strategy, ",
        ),
        (
            "steps.known.lookup.miss",
            "nulls",
            "steps.known.lookup.miss is no knob, since another value takes a new checkpoint: stop the job,",
        ),
        (
            "relations.sellers.url",
            "sqlite://",
            "relations.sellers.url is no knob, since another value takes a restart: change the file, and",
        ),
        (
            "steps.known.lookup.strategy",
            "sacn",
            "steps.known.lookup.strategy: Input should be 'auto', 'hybrid'",
        ),
        (
            "steps.known.lookup.time_per_batch",
            "soon",
            "steps.known.lookup.time_per_batch: 'soon' is not a duration such as 500ms",
        ),
        (
            "steps.known.lookup.page_rows",
            0,
            "steps.known.lookup.page_rows: Input should be greater than or equal to 1",
        ),
        (
            "steps.known.lookup.cache.memory",
            0,
            "steps.known.lookup.cache.memory: Input should be greater than or equal to 1",
        ),
        (
            "steps.matched.purge_every",
            2,
            "steps.matched.purge_every: preset pwjoin purges with each punctuation",
        ),
        (
            "streams.bids.event_time.lateness",
            "9s",
            "streams.bids.event_time.lateness is no knob, since another value takes a new checkpoint (rows",
        ),
        (
            "steps.matched.window.items",
            "9s",
            "steps.matched.window.items is no knob, since another value takes a new checkpoint (keys ",
        ),
        ("batch.records", 0, "batch.records: Input should be greater than or equal to 1"),
        ("batch.records", 10**32, "batch.records: Input should be less than or equal to 1000000000"),
        ("batch.records", True, "batch.records: Input should be a valid integer"),
        ("batch.every", "999999999999d", "batch.every: '999999999999d' is not from 0 to 36500d"),
        ("batch.every", "0.01ms", "batch.every: '0.01ms' is no whole number of milliseconds"),
        ("batch.every", "2d", "batch.every: 2 days is not from 0ms to 1d"),
        ("batch.every", 10**400, "batch.every: 1000000"),
        ("batch.every", -(10**400), "batch.every: -1000000"),
        ("batch.every", float("nan"), "batch.every: nan is not a duration such as 500ms"),
        ("batch.every", True, "batch.every: True is not a duration such as 500ms"),
        ("batch.every", "\u0663s", "batch.every: '\u0663s' is not a duration such as 500ms"),
        (
            "steps.known.lookup.cache.lifetime",
            1e300,
            "steps.known.lookup.cache.lifetime: 1e+300 is not from 0 to 36500d",
        ),
        ("steps.known.lookup.memory", "9" * 5_000 + "GB", "steps.known.lookup.memory: '99999"),
        (
            "steps.known.lookup.memory",
            10**16,
            "steps.known.lookup.memory: Input should be less than or equal to 1000000000000000",
        ),
        ("batch.size", 1, "'batch.size' is no knob; there are steps.known.lookup.strategy"),
        ("steps.matched.memory", "1MB", "steps.matched.memory: preset pwjoin keeps all rows in memory"),
    ],
)
def test_what_the_file_could_not_say_is_refused(name: str, value: Any, says: str) -> None:
    steps = steps_of(make_pipeline(looking={"cache": {}}, join={"preset": "pwjoin"}))

    with pytest.raises(ConfigError) as refused:
        turned(steps, name, value)

    assert str(refused.value).startswith(says)


@pytest.mark.parametrize("bucket", range(len(BUCKETS)))
def test_a_strategy_counts_from_the_batch_after(tmp_path: Path, bucket: int) -> None:
    """In every bucket; the batch that reads of it is repeated as it was."""
    key, *_ = keys_of(bucket)
    turning = Turning(tmp_path, looking={"strategy": "hybrid"})

    def by_list(samples: dict[str, float]) -> bool:
        pages, lists = (samples[f"lookup_reads_total{{by={by},relation=sellers}}"] for by in ("page", "list"))
        assert pages + lists == 1
        return lists == 1

    assert not by_list(turning.batch(bid(key, 1)))
    assert not by_list(turning.batch(bid(key, 1), lookup__strategy="batched"))
    assert by_list(turning.batch(bid(key, 1)))
    assert by_list(turning.batch(bid(key, 1)))


def test_time_per_batch_can_be_set_and_taken_away(tmp_path: Path) -> None:
    turning = Turning(tmp_path)
    waiting = [turning.batch(bid(0, 1), lookup__time_per_batch="0s")]
    waiting += [turning.batch(bid(0, 1)) for _ in range(3)]
    waiting += [turning.batch(bid(0, 1), lookup__time_per_batch=None)]
    waiting += [turning.batch(bid(0, 1)) for _ in range(3)]

    pending = [samples["lookup_pending_rows{relation=sellers}"] for samples in waiting]
    assert pending == [0, 0, 1, 2, 3, 0, 0, 0]


def test_rows_may_wait_in_more_memory_or_less(tmp_path: Path) -> None:
    """All buckets together, as in the pipeline file; a full batch reads on beyond it."""
    turning = Turning(tmp_path, looking={"time_per_batch": "0s"})
    batches = [turning.batch(bid(0, 1)) for _ in range(3)]
    batches += [turning.batch(bid(0, 1), lookup__memory=2), turning.batch(bid(0, 1))]
    batches += [turning.batch(bid(0, 1), lookup__memory="1MB"), turning.batch(bid(0, 1))]

    assert [samples["lookup_pending_rows{relation=sellers}"] for samples in batches] == [0, 1, 2, 3, 0, 0, 1]
    memory = [samples["lookup_memory_bytes{relation=sellers}"] for samples in batches]
    assert memory == [64_000_000] * 4 + [2, 2, 1_000_000]


def test_purging_waits_for_so_many_punctuations(tmp_path: Path) -> None:
    turning = Turning(tmp_path)

    # Of one bucket, since each counts for itself, and purges when it gets no row.
    first, second, third, fourth, other, *_ = keys_of(0)

    def kept(key: int, **knobs: int) -> float:
        turning.batch(item(key, 1), **knobs)
        return turning.batch(close("bids", key), bid(other, 1))["state_rows{operator=join,stream=items}"]

    assert [kept(first), kept(second, join__purge_every=2), kept(third), kept(fourth)] == [0, 1, 0, 1]


def test_the_join_may_keep_more_or_less_in_memory(tmp_path: Path) -> None:
    """All buckets together, as in the pipeline file; what is spilled stays so."""
    turning = Turning(tmp_path)

    def spilled(**knobs: Any) -> float:
        return turning.batch(item(0, 1), **knobs)["join_spilled_bytes{stream=items}"]

    assert [spilled(), spilled(join__memory=2)] == [0, 0]
    some, more, still = spilled(), spilled(join__memory=None), spilled()
    assert 0 < some < more == still


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[OpsDatabase]:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as database:
        yield database


def turn_row(offset: int, value: Any, refused: str | None = None) -> dict[str, Any]:
    place = {"partition": 0, "offset": offset, "set_at": 7.0, "by": "Ann"}
    return place | {"name": "steps.known.lookup.strategy", "value": value, "refused": refused}


def test_turns_are_kept_with_what_was_before(ops: OpsDatabase) -> None:
    """The file's value at first; what is refused changes nothing, and a batch that is repeated writes its
    turns once."""
    filed = {"steps.known.lookup.strategy": "auto"}
    for _ in range(2):
        ops.turns.record("auction", 3, [turn_row(6, "mesh"), turn_row(5, "scan")], filed)
    ops.turns.record("auction", 4, [turn_row(7, "sacn", "there is none")], filed)
    ops.turns.record("auction", 9, [turn_row(8, "auto")], filed)
    ops.turns.record("other", 9, [turn_row(8, "auto")], {})

    assert [
        (turn["batch_id"], turn["before"], turn["value"], turn["refused"]) for turn in ops.turns.of("auction")
    ] == [
        (3, "auto", "scan", None),
        (3, "scan", "mesh", None),
        (4, "mesh", "sacn", "there is none"),
        (9, "mesh", "auto", None),
    ]
    assert ops.turns.of("other")[0]["before"] is None


def test_stored_values_that_no_longer_hold_are_ignored(tmp_path: Path, ops: OpsDatabase) -> None:
    """In the state of buckets, which tell of it once, and in the ops database, where they are refused."""
    turning = Turning(tmp_path)
    turning.batch(bid(0, 1), lookup__time_per_batch="0s", lookup__memory=7)
    turning.spoil("steps.known.lookup.memory", 10**32)
    turning.batch(bid(0, 1))
    ignored = [report.get("ignored", []) for report in turning.reports]
    turning.batch(bid(0, 1))

    why = "steps.known.lookup.memory: Input should be less than or equal to 1000000000000000"
    assert [each for each in ignored if each] == [[why]] * len(BUCKETS)
    assert not any(report.get("ignored") for report in turning.reports)
    assert turning.batch(bid(0, 1))["lookup_memory_bytes{relation=sellers}"] == 64_000_000

    steps = steps_of(make_pipeline())
    every = {**turn_row(1, 1e-05), "name": "batch.every"}
    gone = {**turn_row(2, 7), "name": "steps.known.lookup.cache.memory"}  # which the file may bring back
    ops.turns.record("auction", 3, [turn_row(0, "mesh"), every, gone], {})
    [refused] = ops.turns.refuse("auction", partial(stale, steps))
    assert refused["refused"] == "batch.every: 1e-05 is no whole number of milliseconds, as durations are"
    assert [turn["refused"] for turn in ops.turns.of("auction")] == [None, refused["refused"], None]
    assert Pace(make_pipeline(), ops.turns.of("auction"), fixed=False).trigger == {
        "processingTime": "1000 milliseconds"
    }


def test_knobs_from_the_command_line(ops: OpsDatabase, broker: Broker) -> None:
    """`set` sends a control record, or says what is wrong with the value; `list` shows what holds and why."""
    ops.turns.record("auction", 3, [turn_row(0, "mesh"), turn_row(1, "sacn", "there is none")], {})
    make_topic(broker.bootstrap, "auction-control")
    url = {"ENDMARK_RELATION_URL": "sqlite:///r.db"}

    def run(*arguments: str) -> Any:
        return endmark("knobs", *arguments, **url)

    where = f"--bootstrap={broker.bootstrap}"
    done = run("set", str(AUCTION), "steps.known.lookup.time_per_batch", "2s", where, "--by=Bo")
    wrong = run("set", str(AUCTION), "steps.known.lookup.time_per_batch", "soon", where, "--by=Bo")
    shown = json.loads(run("list", str(AUCTION), f"--ops-url={ops.engine.url}", "--json").stdout)

    assert done.returncode == 0, done.stderr
    assert (wrong.returncode, "'soon' is not a duration" in wrong.stderr) == (2, True)
    with Log(broker.bootstrap, ["auction-control"]) as log:
        values = [value for batch in log.batches() for value in batch.column("value").to_pylist()]
    assert values == [b'{"set": {"steps.known.lookup.time_per_batch": "2s"}, "by": "Bo"}']
    assert shown["about"]["steps.known.lookup.page_rows"]["applies"] == "live"
    assert shown["knobs"] == filed(steps_of(load(AUCTION, url))) | {"steps.known.lookup.strategy": "mesh"}
    assert [turn["refused"] for turn in shown["turns"]] == [None, "there is none"]
    fields = json.loads(run("fields", str(AUCTION), "--json").stdout)
    assert [
        fields[name] for name in ("steps.known.lookup.strategy", "publish", "steps.matched.window.items")
    ] == [
        "live",
        "restart",
        "new checkpoint",
    ]
    assert "there is none" in run("list", str(AUCTION), f"--ops-url={ops.engine.url}").stdout
