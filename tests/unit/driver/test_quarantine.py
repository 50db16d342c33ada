"""When dead letters stop a job: what counts, over which records, and what the error says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endmark.driver.quarantine import Quarantine, QuarantineError
from endmark.errors import ConfigError
from endmark.metrics import add
from endmark.pipeline.sources import Quarantine as Limit
from support.bucket_tasks import BucketTasks, Located
from support.verify_world import STAMPED, bid, make_pipeline

Bad = dict[str, int]


class Batches:
    """The quarantine of a pipeline whose bids have some limit, and batches of it."""

    def __init__(self, limit: Any = None) -> None:
        declared = {} if limit is None else {"quarantine": limit}
        self.quarantine = Quarantine(make_pipeline(declared=({}, declared)))

    def batch(self, records: int, stream: str = "bids", **bad: int) -> bool:
        """One batch of so many records, some of which are dead letters by reason; whether the job stops."""
        unreadable = {
            reason: {"records": times, "at": f"{stream}/0/{times}", "error": f"it is {reason}"}
            for reason, times in bad.items()
        }
        reports: list[dict[str, Any]] = [{"unreadable": {stream: unreadable}}, {"unreadable": {}}, {}]
        self.quarantine.take({f"records_total{{stream={stream}}}": records}, reports)
        return self.quarantine.is_full


def test_more_than_a_fifth_of_a_thousand_stop_the_job() -> None:
    """No batch begins after that."""
    batches = Batches()

    assert not batches.batch(1_000, malformed=150, empty=50)
    batches.quarantine.require_room()
    assert not batches.batch(1_000, malformed=200)
    assert batches.batch(999, malformed=201)
    with pytest.raises(QuarantineError, match="stream bids: 401 of its last 1,999 records"):
        batches.quarantine.require_room()
    assert batches.batch(100_000), "what is full stays so"


def test_the_error_says_what_is_wrong_most_often_and_where() -> None:
    batches = Batches()
    batches.batch(500, empty=101)
    batches.batch(500, wrong_type=60, empty=1)

    assert not batches.quarantine.is_full
    batches.batch(100, wrong_type=70)

    with pytest.raises(QuarantineError) as found:
        batches.quarantine.require_room()
    text = str(found.value)
    assert "232 of its last 1,100 records are dead letters, more than 20% of 1,000" in text
    assert "130 of them for wrong_type, such as bids/0/70: it is wrong_type." in text
    assert "`endmark dead-letters list`" in text
    assert "streams.bids.quarantine" in text


def test_the_last_records_are_those_of_whole_batches() -> None:
    """They are as few batches as have 1,000 records together, or one larger batch alone."""
    batches = Batches()

    assert not batches.batch(600, empty=120)
    assert not batches.batch(600, empty=120), "240 of 1,200"
    assert not batches.batch(600, empty=120), "240 of 1,200, the first batch has gone"
    assert not batches.batch(400)
    assert not batches.batch(100_000, empty=20_000)
    assert batches.batch(100_000, empty=20_001)


def test_records_that_were_not_read_yet_are_taken_for_good_ones() -> None:
    """A job that has read 200 bad records and nothing else goes on."""
    batches = Batches()

    assert not batches.batch(200, empty=200)
    assert batches.batch(1, empty=1)


def test_streams_are_judged_by_themselves() -> None:
    """A batch without records of a stream is none of its batches."""
    batches = Batches()

    assert not batches.batch(1_000, empty=200)
    assert not batches.batch(1_000, "items", empty=200)
    assert not batches.batch(0, "items")
    assert batches.batch(200, "items", empty=41)


@pytest.mark.parametrize(
    ("limit", "most"), [({"share": "0%"}, 0), ({"share": "50%", "of": 10}, 500), ({"share": "99.9%"}, 999)]
)
def test_the_file_says_how_many(limit: dict[str, Any], most: int) -> None:
    assert not Batches(limit).batch(1_000, empty=most)
    assert Batches(limit).batch(1_000, empty=most + 1)


def test_off_never_stops_the_job() -> None:
    assert not Batches("off").batch(1_000, empty=1_000)


@pytest.mark.parametrize(
    ("limit", "error"),
    [
        ({"share": "100%"}, "less than 1"),
        ({"share": 20}, "20 is not a share such as 20%"),
        ({"share": "-1%"}, "not a share"),
        ({"share": "a few"}, "not a share"),
        ({"share": True}, "not a share"),
        ({"of": 0}, "greater than or equal to 1"),
        ({"of": 1_000_001}, "less than or equal to 1000000"),
        ("on", "off"),
    ],
)
def test_impossible_limits_are_refused(limit: Any, error: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=error):
        Batches(limit)


def test_a_limit_is_read_again_as_it_was_written() -> None:
    """A limit survives its JSON."""
    limit = Limit.model_validate({"share": "12.5%", "of": 8})

    assert Limit.model_validate(json.loads(limit.model_dump_json())) == limit


def test_records_that_cannot_be_read_are_told_with_examples(tmp_path: Path) -> None:
    """By tasks, and those of streams alone. Missing rows of a relation and tombstones are none."""
    pipeline = make_pipeline(looking={"miss": "dead_letter"})
    topic = pipeline.streams["bids"].topic
    bids: list[Located] = [
        (topic, 0, at, value, STAMPED)
        for at, value in enumerate([bid(7, 1.5, seller=99).value, b"x", None, b"", b"y" * 999])
    ]
    tasks = BucketTasks(pipeline, [(1, "Ann", 4.5)], 1, tmp_path)

    found = tasks.batch([*bids, ("small-control", 0, 0, b"{}", 0)])

    assert "no_match" in {letter["reason"] for letter in found["dead_letters"]}
    [unreadable] = [report["unreadable"] for report in tasks.reports if "unreadable" in report]
    assert set(unreadable) == {"bids"}
    assert {reason: (each["records"], each["at"]) for reason, each in unreadable["bids"].items()} == {
        "malformed": (2, f"{topic}/0/1"),
        "empty": (1, f"{topic}/0/3"),
    }
    samples = add(report["samples"] for report in tasks.reports)
    assert samples["records_total{stream=bids}"] == 5
    assert samples["tombstones_total{stream=bids}"] == 1
    letters = [letter["offset"] for letter in found["dead_letters"] if letter["topic"] == topic]
    assert sorted(letters) == [0, 1, 3, 4]
