"""When a demo kills its job."""

from __future__ import annotations

import pytest

from endmark.demo.kills import Kills


@pytest.mark.parametrize(
    ("polls", "killed"),
    [
        ([(10, 0), (19, 3), (21, 4), (22, 5), (39, 9), (41, 10), (59, 11)], [21, 41]),  # evenly over a minute
        ([(21, -1), (30, 0), (45, 0), (46, 1), (59, 2)], [30, 46]),  # each after a batch of its own
        ([(70, 3), (71, 4), (72, 5)], [70, 71]),  # late, but as often as asked for
        ([(21, 0), (59, 0)], [21]),
    ],
)
def test_kills_are_spread_over_the_feed_and_each_follows_progress(
    polls: list[tuple[int, int]], killed: list[int]
) -> None:
    now = 100.0
    kills = Kills(2, 60.0, clock=lambda: now)
    found = []
    for seconds, batch in polls:
        now = 100.0 + seconds
        if kills.due(batch):
            found.append(seconds)

    assert found == killed
    assert kills.done == len(killed)
