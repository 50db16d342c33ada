"""When a job starts its query again, and with what, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from endmark.pipeline import Batch
from endmark.spark.pace import NewPaceError, Pace
from support.verify_world import make_pipeline

PIPELINE = make_pipeline().model_copy(update={"batch": Batch.model_validate({"records": 70, "every": "2s"})})


def turn(offset: int, name: str, value: Any, refused: str | None = None) -> dict[str, Any]:
    return {"partition": 0, "offset": offset, "name": f"batch.{name}", "value": value, "refused": refused}


def test_a_query_is_started_with_what_was_turned_last() -> None:
    """By the order of records, and by what a run before has left; what was refused is nothing."""
    past = [turn(3, "records", 9), turn(1, "records", 8), turn(4, "records", 0, "too few")]
    pace = Pace(PIPELINE, past, fixed=False)

    assert (pace.records, pace.trigger, pace.is_new) == (9, {"processingTime": "2.0 seconds"}, False)
    pace.take([turn(6, "every", 0.5), turn(5, "every", 7.0)])
    assert (pace.is_new, pace.trigger) == (True, {"processingTime": "0.5 seconds"})
    pace.start()
    assert not pace.is_new


def test_no_batch_is_written_between_a_turn_and_the_next_query() -> None:
    """Nor is one refused for a turn to what holds anyhow."""
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
    assert (pace.trigger, pace.waits_long) == ({"processingTime": "3600.0 seconds"}, True)


def test_what_ends_by_itself_keeps_its_pace() -> None:
    pace = Pace(PIPELINE, [turn(0, "records", 9), turn(1, "every", 60.0)], fixed=True)
    pace.take([turn(2, "records", 5)])
    assert not pace.waits_long

    assert (pace.records, pace.trigger, pace.is_new) == (9, {"availableNow": True}, False)
