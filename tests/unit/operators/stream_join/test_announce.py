"""What several batches of the join in one batch of the job say of patterns."""

from __future__ import annotations

from endmark.operators.stream_join.announce import Report, aligned


def test_a_pattern_waits_as_long_as_the_last_step_says() -> None:
    """What an earlier step kept and a later one released is announced; what waits at the end is not."""
    first = Report({"a": "closed"}, ["b", "c"])

    both = first.then(Report({"b": "expired"}, ["c"]))

    assert aligned([vars(both)]) == {"a": "closed", "b": "expired"}
    assert both.waiting == ["c"]
