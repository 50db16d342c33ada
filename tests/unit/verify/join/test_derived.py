"""Small histories by hand: the rows of a join go on into a join on another key, as `verify` expects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from endmark.pipeline import Pipeline
from endmark.verify.session import Session
from support.two_stages import NAMES, row, two_stages
from support.verify_recompute import recomputed
from support.verify_world import Record, instant

ONE_EACH = dict.fromkeys((f"all.{name}" for name in NAMES), 1)
PROMISED = {"orders": ["order_id", "customer_id"], "payments": ["order_id"], "tickets": ["customer_id"]}
ANYTHING: dict[str, Any] = {"between": {}}
# Order 1 of customer 7 is paid twice, order 2 of customer 8 once.
PAID = [
    row("orders", 1, order_id=1, customer_id=7),
    row("orders", 2, order_id=2, customer_id=8),
    row("payments", 3, order_id=1),
    row("payments", 9, order_id=1),
    row("payments", 4, order_id=2),
]


def told(name: str, **patterns: Any) -> Record:
    return Record(f"all.{name}", 0, json.dumps({"$punctuation": patterns}).encode())


def equals(value: int) -> dict[str, int]:
    return {"equals": value}


def heartbeat(name: str, seconds: float) -> Record:
    return told(name, at={"between": {"to": instant(seconds)}})


def results(
    pipeline: Pipeline, records: list[Record], *columns: str, announced: tuple[Any, ...] = ()
) -> list[tuple[Any, ...]]:
    """The expected results, by the offsets of their records, or by other columns.

    Args:
        pipeline: the pipeline.
        records: what its topics have.
        columns: the columns of the results to return.
        announced: the patterns of the punctuations that the second join is to announce.
    """
    shown = columns or [f"{name}_kafka_offset" for name in NAMES]
    with recomputed(pipeline, records, None, ONE_EACH) as session:
        found = session.run("SELECT $columns FROM expected_results", columns=", ".join(shown))
        punctuations = session.run("FROM expected_punctuations")
    assert [json.loads(each["punctuation"]) for each in punctuations] == list(announced)
    return sorted((tuple(each.values()) for each in found), key=str)


def test_each_row_of_the_first_join_meets_rows_of_the_second_key() -> None:
    tickets = [row("tickets", 5, customer_id=7), row("tickets", 5, customer_id=9)]
    assert results(two_stages(), [*PAID, *tickets]) == [(0, 0, 0), (0, 1, 0)]


@pytest.mark.parametrize(("seconds", "found"), [(4, 2), (4.000001, 0)])
def test_a_row_has_the_time_of_its_first_input(seconds: float, found: int) -> None:
    """Not that of a payment, though it made the row."""
    pipeline = two_stages(served={"window": {"paid": "3s", "tickets": None}})
    assert len(results(pipeline, [*PAID, row("tickets", seconds, customer_id=7)])) == found


def test_rows_of_the_first_join_are_never_late() -> None:
    """The second row of order 1 comes when the orders are far ahead."""
    records = [*PAID[:3], row("orders", 1000, order_id=3, customer_id=7), *PAID[3:]]
    assert len(results(two_stages(), [*records, row("tickets", 5, customer_id=7)])) == 2


@pytest.mark.parametrize("kind", ["inner", "left", "full"])
def test_a_null_in_the_second_key_is_in_no_result(kind: str) -> None:
    pipeline = two_stages(nullable=True, served={"type": kind}, promised={"tickets": ["customer_id"]})
    records = [row("orders", 1, order_id=1, customer_id=None), row("payments", 1, order_id=1)]
    ended = told("tickets", customer_id={"anything": True})
    assert results(pipeline, [*records, ended], announced=({"tickets_customer_id": ANYTHING},)) == []


@pytest.mark.parametrize(("first", "found"), [("inner", []), ("left", [(1, None, 0)]), ("semi", [(0, 0)])])
def test_the_second_join_takes_the_results_of_the_first_by_its_type(
    first: str, found: list[tuple[Any, ...]]
) -> None:
    """An order without a payment is a result of a left join once the payments have closed it."""
    pipeline = two_stages(paid={"type": first}, promised=PROMISED)
    records = [*PAID[:4], row("tickets", 2, customer_id=7 if first == "semi" else 8)]
    shown = () if first != "semi" else ("orders_kafka_offset", "tickets_kafka_offset")
    assert results(pipeline, records, *shown) == (found if first == "semi" else [])
    assert results(pipeline, [*records, told("payments", order_id=equals(2))], *shown) == found


ALONE = [row("tickets", 2, customer_id=5)]


def test_a_pattern_of_the_first_join_closes_a_second_key() -> None:
    """Once it is announced: no order of the customer waits, and none can come."""
    pipeline = two_stages(served={"type": "right"}, promised=PROMISED)
    waiting = [row("orders", 3, order_id=4, customer_id=5)]
    closing = told("orders", customer_id=equals(5))
    assert results(pipeline, [*PAID, *ALONE, closing]) == [(None, None, 0)]
    assert results(pipeline, [*PAID, *ALONE, told("orders", order_id=equals(5))]) == []
    assert results(pipeline, [*PAID, *ALONE, *waiting, closing]) == []
    ended = [*PAID, *ALONE, *waiting, closing, told("payments", order_id=equals(4))]
    assert results(pipeline, ended) == [(None, None, 0)]


def test_the_end_of_a_stream_with_a_row_in_each_result_closes_all_second_keys() -> None:
    pipeline = two_stages(served={"type": "right"}, promised=PROMISED)
    ended = told("payments", order_id={"anything": True})
    announced = ({"orders_customer_id": ANYTHING},)
    assert results(pipeline, [*ALONE, ended], announced=announced) == [(None, None, 0)]
    left = two_stages(paid={"type": "left"}, served={"type": "right"}, promised=PROMISED)
    assert results(left, [*ALONE, ended], announced=({"payments_order_id": ANYTHING},)) == []


def test_a_pattern_on_the_first_key_is_one_on_equal_columns() -> None:
    """Payments promise orders that they have no rows of; so the first join has none, either."""
    pipeline = two_stages(on=["order_id"], served={"type": "right"}, promised=PROMISED | {"tickets": []})
    below = told("payments", order_id={"between": {"to": 5}})
    records = [*(row("tickets", 1, order_id=number) for number in (5, 6)), below]
    announced = ({"orders_order_id": {"between": {"to": 5}}},)
    assert results(pipeline, records, announced=announced) == [(None, None, 0)]


@pytest.mark.parametrize(("reached", "found"), [(3.999999, []), (4, [(None, None, 0)])])
def test_progress_is_that_of_the_first_input(reached: float, found: list[tuple[Any, ...]]) -> None:
    """A row at exactly the end of the ticket's window may still come: an order right behind the heartbeat."""
    pipeline = two_stages(served={"type": "right", "window": "2s"})
    assert results(pipeline, [*ALONE, heartbeat("orders", reached), heartbeat("payments", 99)]) == found


def test_an_order_that_waits_holds_progress_back() -> None:
    pipeline = two_stages(
        paid={"window": "50s"}, served={"type": "right", "window": "2s"}, promised={"payments": ["order_id"]}
    )
    records = [*ALONE, row("orders", 3, order_id=1, customer_id=7), row("orders", 30, order_id=2)]
    assert results(pipeline, records) == []
    assert results(pipeline, [*records, told("payments", order_id=equals(1))]) == [(None, None, 0)]
    assert results(pipeline, [*records, heartbeat("payments", 53)]) == [(None, None, 0)]


@pytest.mark.parametrize(("preset", "progress"), [("auto", 30), ("wjoin", 3), ("xjoin", 1)])
def test_a_preset_that_keeps_rows_holds_progress_back(preset: str, progress: int) -> None:
    """The payments have closed two of three orders, of which one has left its window."""
    window = {} if preset == "xjoin" else {"window": "10s"}
    pipeline = two_stages(paid={"preset": preset, **window}, promised={"payments": ["order_id"]})
    orders = [row("orders", seconds, order_id=number) for number, seconds in enumerate((1, 3, 30))]
    closing = [told("payments", order_id=equals(number)) for number in (0, 1)]
    records = [*orders, *closing, heartbeat("payments", 12)]
    with recomputed(pipeline, records, None, ONE_EACH) as session:
        assert reached(session) == progress


@pytest.mark.parametrize(("preset", "window"), [("xjoin", {}), ("wjoin", {"window": "99s"})])
def test_rows_that_a_semi_join_has_put_out_hold_no_progress_back(preset: str, window: dict[str, Any]) -> None:
    """They leave state at once, whichever preset keeps other rows."""
    pipeline = two_stages(paid={"type": "semi", "preset": preset, **window}, served={"type": "inner"})
    orders = [row("orders", seconds, order_id=number) for number, seconds in enumerate((1, 3, 30))]
    paid = [row("payments", 2, order_id=number) for number in (0, 1)]
    for records, progress in (([*orders, paid[1]], 1), ([*orders, *paid], 30)):
        with recomputed(pipeline, records, None, ONE_EACH) as session:
            assert reached(session) == progress


def reached(session: Session) -> float:
    """The progress of `paid`, in seconds."""
    (found,) = session.run(
        "SELECT lowest, highest, epoch_us(TIMESTAMP '2026-01-01') AS start FROM progress "
        "WHERE stream = 'paid'"
    )
    assert found["lowest"] == found["highest"]
    return (int(found["lowest"]) - int(found["start"])) / 1e6


def test_rows_of_the_first_join_are_looked_up() -> None:
    """Each of them by itself, before the second join."""
    lookup = ("paid", {"miss": "drop"})
    pipeline = two_stages(lookup=lookup)
    records = [
        row("orders", 1, order_id=1, customer_id=2),
        row("payments", 1, order_id=1),
        row("orders", 1, order_id=2, customer_id=9),
        row("payments", 1, order_id=2),
        *(row("tickets", 1, customer_id=customer) for customer in (2, 9)),
    ]
    assert results(pipeline, records, "orders_customer_id", "sellers_name") == [(2, "Bo")]


@pytest.mark.parametrize("by", [["customer_id"], ["orders.order_id"]])
def test_groups_of_the_second_join_are_final_once_all_streams_have_ended(by: list[str]) -> None:
    pipeline = two_stages(by=by, promised=PROMISED)
    records = [*PAID, row("tickets", 1, customer_id=7)]
    records += [told(name, **{PROMISED[name][0]: {"anything": True}}) for name in NAMES]
    with recomputed(pipeline, records, None, ONE_EACH) as session:
        found = session.run('FROM "expected_running:grouped"')
    assert [(next(iter(each.values())), each["n"], each["final"]) for each in found] == [
        (7 if by == ["customer_id"] else 1, 2, True)
    ]
