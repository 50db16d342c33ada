"""When a job starts its query again, and with what, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from endmark.driver.pace import NewPaceError, Pace
from endmark.pipeline import Batch
from support.verify_world import make_pipeline

PIPELINE = make_pipeline().model_copy(update={"batch": Batch.model_validate({"records": 70, "every": "2s"})})


def turn(offset: int, name: str, value: Any, refused: str | None = None) -> dict[str, Any]:
    return {"partition": 0, "offset": offset, "name": f"batch.{name}", "value": value, "refused": refused}


def test_a_query_is_started_with_what_was_turned_last() -> None:
    """By the order of records, and by what a run before has left; what was refused is nothing."""
    past = [turn(3, "records", 9), turn(1, "records", 8), turn(4, "records", 0, "too few")]
    pace = Pace(PIPELINE, past, fixed=False)

    assert (pace.records, pace.trigger, pace.is_new) == (9, {"processingTime": "2000 milliseconds"}, False)
    pace.take([turn(6, "every", 0.5), turn(5, "every", 7.0)])
    assert (pace.is_new, pace.trigger) == (True, {"processingTime": "500 milliseconds"})
    pace.start()
    assert not pace.is_new


@pytest.mark.parametrize(
    ("said", "full"),
    [
        ({"records": 70}, 62),
        ({"records": 70, "pause_below": 20}, 20),
        ({"records": 70, "pause_below": 100}, 62),
        ({"records": 70, "pause_below": 1}, 2),
        ({"records": 5}, 2),
    ],
)
def test_a_batch_is_no_pause_from_its_size_on_or_if_it_is_full(said: dict[str, int], full: int) -> None:
    """Each of eight partitions may give one record less. A pulse alone is always a pause."""
    pipeline = PIPELINE.model_copy(update={"batch": Batch.model_validate(said)})

    assert Pace(pipeline, [], fixed=False).full_batch(8) == full
    assert Pace(pipeline, [], fixed=True).full_batch(8) is None


def test_no_batch_is_written_between_a_turn_and_the_next_query() -> None:
    """A batch is refused after a turn that changes the pace, and not after one to the present value."""
    pace = Pace(PIPELINE, [], fixed=False)
    pace.take([turn(0, "records", 5), turn(1, "records", 70), turn(2, "size", 5)])
    pace.require_same()
    pace.take([turn(3, "records", 5)])

    with pytest.raises(NewPaceError, match="a knob was turned"):
        pace.require_same()
    pace.start()
    pace.require_same()


def test_a_query_that_waits_for_long_may_be_ended_as_it_is() -> None:
    """The next one is as it was, and begins with a batch; where batches follow soon nothing is gained."""
    assert not Pace(PIPELINE, [], fixed=False).waits_long
    pace = Pace(PIPELINE, [turn(0, "every", 3600.0)], fixed=False)
    assert pace.waits_long
    pace.wake()

    with pytest.raises(NewPaceError):
        pace.require_same()
    pace.start()
    pace.require_same()
    assert (pace.trigger, pace.waits_long) == ({"processingTime": "3600000 milliseconds"}, True)


def test_a_job_starts_five_queries_again_in_150_seconds() -> None:
    """A sixth turn waits until the first start is 150 s old, and the value turned last counts then."""
    now = 1000.0
    pace = Pace(PIPELINE, [], fixed=False, clock=lambda: now)
    pace.start()
    for records in range(1, 6):
        pace.take([turn(records, "records", records)])
        assert pace.is_new
        pace.start()
        now += 10.0
    pace.take([turn(6, "records", 6)])
    now = 1149.9
    pace.require_same()
    pace.take([turn(7, "records", 7)])
    now = 1150.0

    assert (pace.is_new, pace.records) == (True, 7)
    pace.start()
    pace.take([turn(8, "records", 8)])
    assert not pace.is_new
    now = 1160.0
    assert pace.is_new


def test_what_ends_by_itself_keeps_its_pace() -> None:
    pace = Pace(PIPELINE, [turn(0, "records", 9), turn(1, "every", 60.0)], fixed=True)
    pace.take([turn(2, "records", 5)])
    assert not pace.waits_long

    assert (pace.records, pace.trigger, pace.is_new) == (9, {"availableNow": True}, False)
