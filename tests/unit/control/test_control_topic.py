"""The control topic's records: what they are, what they bring about, and when one is sent."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from kafka.errors import KafkaError

from endmark.control import pulse
from endmark.control.pulse import Pulse
from endmark.metrics import Samples, add
from endmark.wire.control import ControlError, Question, Turn, read_control
from support.bucket_tasks import BUCKETS, BucketTasks, Located
from support.verify_recompute import recomputed, require_within
from support.verify_world import Record, make_pipeline

TOPIC = "small-control"
SELLERS = [(1, "Ann", 4.5)]
PULSES = [b'{"pulse": {}}', b' {"pulse":\t{ }\r\n}', rb'{"p\u0075lse": {}}']
SETTINGS = [
    b'{"set": {"steps.known.lookup.strategy": "scan"}, "by": "Ann"}',
    b'{"by": "Ann", "set": {"steps.known.lookup.time_per_batch": "1.5s"}}',
    b'{"set": {"steps.known.lookup.memory": "2MB"}, "by": "Ann"}',
    b'{"set": {"steps.known.lookup.time_per_batch": null}, "by": "Zo\xc3\xab"}',
    rb'{"set": {"steps.matched.purge_ever\u0079": 4}, "by": "x"}',
    b'{"set": {"steps.known.lookup.strategy": "scan"}, "by": "Ann", "why": "it is \xc2\xb5s cheaper"}',
    b'{"set": {"steps.known.lookup.strategy": "scan"}, "by": "Ann", "why": null}',
]
QUESTIONS = [
    b'{"ask": {"item_id": 7}, "by": "Ann"}',
    rb'{"by": "Zo\u00eb", "ask": {"item\u005fid": -9223372036854775808}}',
]
OTHERS = {
    None: "empty",
    b" ": "empty",
    b"\xff": "not_utf8",
    '\ufeff{"pulse": {}}'.encode(): "malformed",
    b'{"pulse": {},}': "malformed",
    b'{"pulse": {}} x': "malformed",
    b"[" * 5_000: "malformed",
    b'["pulse", {}]': "not_an_object",
    b'{"pulse": {}, "pulse": {}}': "duplicate_field",
    b'{"pulse": {}, "by": "me"}': "bad_control",
    b'{"pulse": []}': "bad_control",
    b'{"pulse": {"pulse": {}}}': "bad_control",
    b'{"pulse": null}': "bad_control",
    b'{"Pulse": {}}': "bad_control",
    b"{}": "bad_control",
    b'{"set": {"steps.known.lookup.strategy": "scan"}}': "bad_control",
    b'{"set": {"steps.known.lookup.strategy": "scan"}, "by": ""}': "bad_control",
    b'{"set": {"steps.known.lookup.strategy": "scan"}, "by": 7}': "bad_control",
    rb'{"set": {"steps.known.lookup.strategy": "scan"}, "by": "\ud800"}': "bad_control",
    rb'{"set": {"\ud800": "scan"}, "by": "Ann"}': "bad_control",
    b'{"set": {"steps.known.lookup.strategy": "scan"}, "by": "%s"}' % (201 * b"x"): "bad_control",
    b'{"set": {}, "by": "Ann"}': "bad_control",
    b'{"set": {"steps.known.lookup.strategy": "scan"}, "by": "Ann", "why": 7}': "bad_control",
    b'{"set": {"steps.known.lookup.strategy": "scan"}, "by": "Ann", "why": "%s"}'
    % (501 * b"x"): "bad_control",
    rb'{"set": {"steps.known.lookup.strategy": "scan"}, "by": "Ann", "why": "\n"}': "bad_control",
    b'{"set": {"steps.known.lookup.strategy": "scan"}, "why": "x"}': "bad_control",
    b'{"set": {"steps.known.lookup.strategy": "scan", "batch.records": 2}, "by": "Ann"}': "bad_control",
    b'{"set": {"batch.records": 3, "batch.records": 2}, "by": "Ann"}': "duplicate_field",
    b'{"set": [], "by": "Ann"}': "bad_control",
    b'{"set": {"steps.known.lookup.strategy": "sacn"}, "by": "Ann"}': "bad_control",
    b'{"set": {"steps.known.lookup.strategy": {"a": [1]}}, "by": "Ann"}': "bad_control",
    b'{"set": {"steps.known.lookup.miss": "nulls"}, "by": "Ann"}': "bad_control",
    b'{"set": {"steps.known.lookup.time_per_batch": "soon"}, "by": "Ann"}': "bad_control",
    b'{"set": {"steps.known.lookup.memory": 0}, "by": "Ann"}': "bad_control",
    b'{"set": {"steps.known.lookup.time_per_batch": NaN}, "by": "Ann"}': "malformed",
    b'{"set": {"steps.matched.purge_every": 0}, "by": "Ann"}': "bad_control",
    b'{"ask": {"item_id": 7}}': "bad_control",
    b'{"ask": {"item_id": 7}, "by": ""}': "bad_control",
    b'{"ask": {"item_id": 7}, "by": "Ann", "why": "x"}': "bad_control",
    b'{"ask": {"item_id": "7"}, "by": "Ann"}': "bad_control",
    b'{"ask": {"item_id": 7.0}, "by": "Ann"}': "bad_control",
    b'{"ask": {"item_id": true}, "by": "Ann"}': "bad_control",
    b'{"ask": {"item_id": null}, "by": "Ann"}': "bad_control",
    b'{"ask": {"item_id": [7]}, "by": "Ann"}': "bad_control",
    b'{"ask": {"item_id": {"equals": 7}}, "by": "Ann"}': "bad_control",
    b'{"ask": {"item_id": 9223372036854775808}, "by": "Ann"}': "bad_control",
    b'{"ask": {"seller_id": 7}, "by": "Ann"}': "bad_control",
    b'{"ask": {"item_id": 7, "seller_id": 7}, "by": "Ann"}': "bad_control",
    b'{"ask": {"item_id": 7, "item_id": 7}, "by": "Ann"}': "duplicate_field",
    b'{"ask": {}, "by": "Ann"}': "bad_control",
    b'{"ask": [], "by": "Ann"}': "bad_control",
}


def test_records_are_heeded_or_dead_letters(tmp_path: Path) -> None:
    """Each of them, by name; `verify` says the same of all, and every bucket runs for them."""
    pipeline = make_pipeline()
    values = [*PULSES, *SETTINGS, *QUESTIONS, *OTHERS]
    tasks = BucketTasks(pipeline, SELLERS, 2, tmp_path)
    located: list[Located] = [(TOPIC, 0, at, value, 0) for at, value in enumerate(values)]

    woken = {row["bucket"] for row in tasks.pack(located[:1])}
    found = tasks.batch(located)

    assert woken == set(BUCKETS.labels)
    letters = [(letter["value"], letter["reason"]) for letter in found["dead_letters"]]
    assert letters == list(OTHERS.items())
    assert all(letter["error"] for letter in found["dead_letters"])
    with recomputed(pipeline, [Record(TOPIC, 0, value) for value in values], found=found) as session:
        require_within(session, pipeline)


def test_the_error_says_what_a_control_record_is() -> None:
    with pytest.raises(
        ControlError, match=r'is {"pulse": {}}, {"set": {.*} or {"ask": {.*this has the members stop'
    ):
        read_control(b'{"stop": {}}')


def test_a_turn_is_read_as_it_was_written() -> None:
    turn = Turn("steps.known.lookup.time_per_batch", None, "Zo\u00eb")

    assert read_control(turn.written()) == turn


def test_a_question_is_read_as_it_was_written() -> None:
    question = Question({"item_id": 7, "note": "\u00fc"}, "Zo\u00eb")

    assert read_control(question.written()) == question


def test_control_records_are_counted(tmp_path: Path) -> None:
    """By what they ask for; one that is none as a dead letter of no stream."""
    tasks = BucketTasks(make_pipeline(), SELLERS, 2, tmp_path)
    packed = tasks.pack(
        [(TOPIC, 0, at, value, 0) for at, value in enumerate([PULSES[0], b"{}", SETTINGS[0], QUESTIONS[0]])]
    )

    samples = add(json.loads(row["blob"])["samples"] for row in packed if row["channel"] == "metrics")
    read = [json.loads(row["blob"]) for row in packed if row["channel"] == "read"]

    assert samples["control_records_total{asks=pulse}"] == 1
    assert samples["control_records_total{asks=set}"] == 1
    assert samples["control_records_total{asks=why}"] == 1
    assert samples["dead_letters_total{reason=bad_control}"] == 1
    assert read == len(BUCKETS) * [{"records": 4}]


class Topic:
    """Stands for the producer; `sent` are the values, `away` is a broker that takes nothing."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.away = False

    def send(self, topic: str, value: bytes, **record: Any) -> Topic:
        usual: dict[str, Any] = {"key": None, "partition": 0, "headers": [], "timestamp_ms": None}
        assert (topic, record) == (TOPIC, usual)
        if self.away:
            raise KafkaError
        self.sent.append(value)
        return self

    def get(self, timeout: float) -> Topic:
        assert timeout > 0
        return self

    @property
    def offset(self) -> int:
        return len(self.sent) - 1


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    made = Topic()
    monkeypatch.setattr(pulse, "connected_producer", lambda _: made)
    monkeypatch.setattr(time, "time", lambda: 100.0)
    return made


def due(at: float | None, oldest: float | None = None) -> Samples:
    times = {"batch_due_time_seconds": at, "lookup_waiting_time_seconds": oldest}
    return {name: time for name, time in times.items() if time is not None}


@pytest.mark.parametrize(("at", "sent"), [(None, 0), (100.5, 0), (100, 1), (7, 1)])
def test_a_pulse_is_sent_when_a_batch_is_due(topic: Topic, at: float | None, sent: int) -> None:
    """No pulse is sent before, and none when nothing waits."""
    driver = Pulse("broker", TOPIC)
    driver.beat()
    driver.batch_done(due(at), {})
    driver.beat()
    driver.beat()

    assert len(topic.sent) == sent
    assert set(topic.sent) <= {b'{"pulse": {}}'}


def test_one_pulse_at_a_time(topic: Topic) -> None:
    """The next is sent when a batch has read the one before, and something still waits."""
    driver = Pulse("broker", TOPIC)
    sent = []
    for read in ({}, {"bids": {"0": 9}}, {TOPIC: {"0": 1}}, {TOPIC: {"0": 1}}, {TOPIC: {"0": 2}}):
        driver.batch_done(due(7), read)
        driver.beat()
        sent.append(len(topic.sent))

    assert sent == [1, 1, 2, 2, 3]


def test_a_broker_that_is_away_is_asked_again(topic: Topic) -> None:
    driver = Pulse("broker", TOPIC)
    driver.batch_done(due(7), {})
    topic.away = True
    driver.beat()
    topic.away = False
    driver.beat()

    assert len(topic.sent) == 1


def test_what_is_tuned_is_sent_once(topic: Topic) -> None:
    """Not by the batch that leads to it, which has no time to wait for a broker; nor if that is away."""
    tuning = Mock(batch_done=Mock(side_effect=[b"one", None, b"two", b"three"]))
    driver = Pulse("broker", TOPIC, tuning)
    driver.tune(7, {"x": 1}, [])
    assert tuning.batch_done.call_args.args == (7, {"x": 1}, [])
    assert topic.sent == []
    driver.turn()
    driver.tune(8, {}, [])
    topic.away = True
    driver.tune(9, {}, [])
    driver.turn()
    topic.away = False
    driver.tune(10, {}, [])
    driver.turn()
    driver.turn()

    assert topic.sent == [b"one", b"three"]


@pytest.mark.parametrize(
    ("samples", "waits"), [(due(None), False), (due(200), True), (due(200, 90), True), (due(200, 99), False)]
)
def test_what_came_later_is_not_waited_for(samples: dict[str, Any], waits: bool) -> None:
    driver = Pulse("broker", TOPIC)
    driver.batch_done(samples, {})

    assert driver.waits_for(95) is waits
