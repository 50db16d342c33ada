"""Questions of what keeps a key open: how they are typed, answered and told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from endmark.control.ops_database.answers import KEPT_ANSWERS
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.questions import ask as questions
from endmark.control.questions.ask import ask
from endmark.control.questions.askable_keys import keys_of, read_key
from endmark.control.questions.reasons import is_open, sentences
from endmark.errors import ConfigError, EndmarkError
from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.wire.control import Question
from support.bucket_tasks import BucketTasks, Located
from support.fulfilment import FULFILMENT
from support.key_answers import answers_of
from support.two_stages import row, two_stages
from support.verify_world import STAMPED, close, item, locate, make_pipeline

PARTITIONS = {"orders": 2, "payments": 2, "shipments": 4}


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[OpsDatabase]:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as database:
        yield database


@pytest.mark.parametrize(
    ("texts", "key"),
    [
        (["note=42", "day=2026-01-31"], {"note": "42", "day": "2026-01-31"}),
        (["day=2026-01-31", "note=a=b"], {"day": "2026-01-31", "note": "a=b"}),
        (["order_id=-7"], {"order_id": -7}),
        (["price=1.50"], {"price": "1.50"}),
    ],
)
def test_a_key_is_typed_as_records_spell_it(texts: list[str], key: dict[str, Any]) -> None:
    kinds = [
        {"note": ColumnType.STRING, "day": ColumnType.DATE},
        {"order_id": ColumnType.LONG},
        {"price": ColumnType.decimal(4, 2)},
    ]
    assert read_key(kinds, texts) == key


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["42"], "'42': write COLUMN=VALUE once for each column of the key"),
        (["order_id=1", "order_id=2"], "write COLUMN=VALUE once"),
        (["order=1"], "order: no step has this key; give a value of order_id or price, day"),
        ([], "nothing: no step has this key"),
        (["price=1.50"], "price: no step has this key"),
        (["order_id=one"], "order_id: 'one' is no long"),
        (["price=1.505", "day=2026-01-31"], r"price: 1.505 has more digits than a decimal\(4,2\)"),
        (["price=1.5", "day=31.1."], "day: '31.1.' is no date such as"),
    ],
)
def test_a_key_that_no_step_has_is_refused(texts: list[str], says: str) -> None:
    kinds = [
        {"order_id": ColumnType.LONG},
        {"price": ColumnType.decimal(4, 2), "day": ColumnType.DATE},
    ]
    with pytest.raises(ConfigError, match=says):
        read_key(kinds, texts)


def test_the_keys_are_those_of_the_stages() -> None:
    assert keys_of(FULFILMENT) == ({"order_id": ColumnType.LONG},)


def record(topic: str, partition: int, offset: int, value: dict[str, Any]) -> Located:
    return topic, partition, offset, json.dumps(value).encode(), STAMPED


def order(number: int, partition: int, time: str) -> Located:
    row = {"order_id": number, "customer_id": 1, "total": "5.00", "ordered_at": f"2026-01-01T{time}Z"}
    return record("orders", partition, 0, row)


def paid(number: int, partition: int, time: str) -> Located:
    row = {"order_id": number, "amount": "5.00", "paid_at": f"2026-01-01T{time}Z"}
    return record("payments", partition, 0, row)


def test_the_answer_names_what_is_missing(tmp_path: Path) -> None:
    """Partitions that have not promised the key, the window, and the partition that holds progress back.

    The answer is as of the end of its batch, whatever bucket has the key."""
    tasks = BucketTasks(
        FULFILMENT, [(1, "Ann", "at")], PARTITIONS, tmp_path, others={"countries": [("at", None)]}
    )
    below = {"order_id": {"between": {"to": 100}}}
    tasks.batch(
        [
            *(order(42, 0, "11:00:00"), order(43, 1, "11:30:00")),
            *(paid(42, 0, "11:40:00"), paid(43, 1, "11:50:30")),
            record("payments", 0, 1, {"$punctuation": {"order_id": {"equals": 42}}}),
            record("shipments", 3, 0, {"$punctuation": below}),
            *(
                record("fulfilment-control", 0, at, {"ask": {"order_id": key}, "by": "Ann"})
                for at, key in enumerate((42, 43, 77))
            ),
        ]
    )
    first, second, third = answers_of(tasks)

    assert [is_open(answer) for answer in (first, second, third)] == [True, True, False]
    assert sentences({"order_id": 42}, first) == [
        (
            "order_id=42 is open in fulfilled because shipments has not closed it: partitions 0, 1 and 2 of "
            "topic shipments have sent no punctuation that matches it, and no partition has sent one that "
            "names it; the window of its rows of payments ends when shipments' progress passes "
            "2026-01-15T11:40:00Z (none yet, since partitions 0, 1, 2 and 3 had no row and no heartbeat)"
        ),
        (
            "orders: 1 row in state of 2026-01-01T11:00:00Z, such as orders/0/0; closed by orders/0/0; "
            "progress now 2026-01-01T11:00:00Z, held back by partition 0, 30 min behind"
        ),
        (
            "payments: 1 row in state of 2026-01-01T11:40:00Z, such as payments/0/0; closed by payments/0/1; "
            "progress now 2026-01-01T11:40:00Z, held back by partition 0, 10 min behind"
        ),
        (
            "shipments: 0 rows in state; has not closed it; progress none yet, since partitions 0, 1, 2 "
            "and 3 had no row and no heartbeat"
        ),
    ]
    assert sentences({"order_id": 43}, second)[0].startswith(
        "order_id=43 is open in fulfilled because payments has not closed it: no partition of topic payments "
        "has sent a punctuation for it; the window of its rows of orders ends when payments' progress passes "
        "2026-01-15T11:30:00Z (now 2026-01-01T11:40:00Z, held back by partition 0, 10 min behind)"
        "; and shipments has not closed it"
    )
    assert sentences({"order_id": 77}, third)[0] == (
        "order_id=77 is unknown in fulfilled: no row of it is in state, and no stream has closed it"
    )

    tasks.batch([record("shipments", at, 1, {"$punctuation": below}) for at in range(3)])
    tasks.batch([record("fulfilment-control", 0, 3, {"ask": {"order_id": 42}, "by": "Ann"})])
    (final,) = answers_of(tasks)

    assert final["final"]
    assert not is_open(final)
    told = sentences({"order_id": 42}, final)
    assert told[0] == "order_id=42 is final in fulfilled: it has no later result"
    assert [each["rows"] for each in final["streams"]] == [0, 0, 0]
    assert "closed by a pattern in each partition: shipments/0/1, shipments/1/1, " in told[-1]


def test_a_row_without_a_window_waits_for_ever(tmp_path: Path) -> None:
    pipeline = make_pipeline(windows=(None, None), lookup="items", looking={"miss": "nulls"})
    tasks = BucketTasks(pipeline, [(1, "Ann", 4.5)], 1, tmp_path)
    item = {"item_id": 1, "seller_id": 1, "listed_at": "2026-01-01T00:00:00Z"}
    tasks.batch(
        [record("all.items", 0, 0, item), record("small-control", 0, 0, {"ask": {"item_id": 1}, "by": "Ann"})]
    )
    (answer,) = answers_of(tasks)

    assert sentences({"item_id": 1}, answer)[0] == (
        "item_id=1 is open in matched because bids has not closed it: no partition of topic all.bids has "
        "sent a punctuation for it; its rows of items have no window"
    )


def test_answers_are_kept_for_a_while(ops: OpsDatabase) -> None:
    """A repeated batch replaces its answers."""

    def answer(offset: int, step: str) -> dict[str, Any]:
        return {"partition": 0, "offset": offset, "step": step}

    ops.answers.record("small", 3, [answer(5, "a"), answer(6, "b")])
    ops.answers.record("small", 3, [answer(5, "c"), answer(5, "d")])
    assert ops.answers.find("small", 0, 5) == {"batch_id": 3, "answers": [answer(5, "c"), answer(5, "d")]}
    assert ops.answers.find("other", 0, 5) is None
    ops.answers.record("small", 9, [answer(6 + KEPT_ANSWERS, "e")])
    assert ops.answers.find("small", 0, 5) is None
    assert ops.answers.find("small", 0, 6) is not None


def test_a_job_that_does_not_run_is_not_asked(ops: OpsDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one that has ended. One that is slow to answer is given up."""
    question = Question({"item_id": 1}, "Ann")
    sent: list[bytes | None] = []

    def send(_bootstrap: str, _topic: str, record: bytes | None) -> int:
        sent.append(record)
        return 7

    monkeypatch.setattr(questions, "send", send)

    def asking() -> dict[str, Any]:
        return ask(ops, "broker", "small", "small-control", question, 0)

    with pytest.raises(EndmarkError, match="no job of small runs"):
        asking()
    ops.runs.start("run", "small", "app", "/checkpoint")
    ops.runs.set_state("run", "stopped")
    with pytest.raises(EndmarkError, match="no job of small runs"):
        asking()
    assert sent == []
    ops.runs.start("again", "small", "app", "/checkpoint")
    with pytest.raises(EndmarkError, match="has not answered in 0 s"):
        asking()
    ops.answers.record("small", 2, [{"partition": 0, "offset": 7}])
    assert asking() == {"batch_id": 2, "answers": [{"partition": 0, "offset": 7}]}
    assert sent == 2 * [question.written()]


def test_each_stage_answers_for_its_own_key(tmp_path: Path) -> None:
    """A question passes through the first of two stages; the second says what its own one lacks."""
    pipeline = two_stages(served={"window": "9s"})
    tasks = BucketTasks(pipeline, [], 1, tmp_path)
    keys = [{"order_id": 3}, {"customer_id": 7}, {"customer_id": 8}]
    rows = [
        row("orders", 1, order_id=3, customer_id=7),
        row("payments", 2, order_id=3),
        row("tickets", 3, customer_id=7),
    ]
    asked = [record("stages-control", 0, at, {"ask": key, "by": "Ann"}) for at, key in enumerate(keys)]
    tasks.batch([*locate(rows), *asked])
    first, second, third = answers_of(tasks)

    assert (first["step"], second["step"], third["step"]) == ("paid", "served", "served")
    assert [each["rows"] for each in first["streams"]] == [1, 1]
    assert [(each["stream"], each["rows"]) for each in second["streams"]] == [("paid", 1), ("tickets", 1)]
    assert [each["rows"] for each in third["streams"]] == [0, 0]
    assert sentences(keys[1], second)[0] == (
        "customer_id=7 is open in served because paid has not closed it: it has announced no pattern that "
        "matches it; the window of its rows of tickets ends when paid's progress passes "
        "2026-01-01T00:00:12Z (now 2026-01-01T00:00:01Z); and tickets has not closed it: it closes no key; "
        "the window of its rows of paid ends when tickets' progress passes 2026-01-01T00:00:10Z (now "
        "2026-01-01T00:00:03Z)"
    )


def test_a_group_by_time_waits_for_progress(tmp_path: Path) -> None:
    items = make_pipeline(punctuated=(False, True)).model_dump(by_alias=True)["streams"]["items"]
    timed = {"from": "items", "derive": {"minute": "date_trunc('minute', listed_at)"}}
    grouped = {"by": ["minute", "item_id"], "measures": {"n": "count"}}
    pipeline = Pipeline.model_validate(
        {
            "name": "alone",
            "streams": {"items": items},
            "steps": {"timed": timed, "by_minute": {"from": "timed", "aggregate": grouped}},
            "tables": {"by_minute": {}},
        }
    )
    tasks = BucketTasks(pipeline, [], 2, tmp_path, buckets=3)
    tasks.batch(locate([item(1, 7, partition=0), item(1, 67, partition=0), item(2, 68, partition=1)]))
    keys = [{"minute": f"2026-01-01T00:0{minute}:00Z", "item_id": 1} for minute in (0, 1)]
    asked = [{"ask": key, "by": "Ann"} for key in keys]
    tasks.batch([record("alone-control", 0, at, each) for at, each in enumerate(asked)])
    final, still = answers_of(tasks)

    assert (final["final"], final["group"]) == (True, False)
    assert (still["final"], still["group"]) == (False, True)
    assert sentences(keys[1], still)[0] == (
        "minute=2026-01-01T00:01:00Z, item_id=1 is open in items because items' progress has not passed its "
        "minute (now 2026-01-01T00:01:07Z, held back by partition 0, 1 s behind)"
    )


def test_a_stream_alone_answers_for_its_key(tmp_path: Path) -> None:
    grouped = {"by": "item_id", "measures": {"n": "count"}}
    pipeline = Pipeline.model_validate(
        {
            "name": "alone",
            "streams": {"items": make_pipeline().model_dump(by_alias=True)["streams"]["items"]},
            "steps": {"by_item": {"from": "items", "aggregate": grouped}},
            "tables": {"by_item": {}},
        }
    )
    tasks = BucketTasks(pipeline, [], 2, tmp_path)
    tasks.batch(locate([item(1, 7), item(3, 8), close("items", 1)]))
    asked = [{"ask": {"item_id": key}, "by": "Ann"} for key in (1, 3)]
    tasks.batch([record("alone-control", 0, at, each) for at, each in enumerate(asked)])
    final, still = answers_of(tasks)

    assert (final["final"], final["group"]) == (True, False)
    assert (still["final"], still["group"]) == (False, True)
    assert sentences({"item_id": 3}, still)[0] == (
        "item_id=3 is open in items because items has not closed it: no partition of topic all.items has "
        "sent a punctuation for it"
    )
