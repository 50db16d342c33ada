"""Puts the records of many overlapping stories into the order of their due times."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import count

from endmark_feed.message import Message


def in_due_order(stories: Iterable[tuple[float, Iterable[Message]]]) -> Iterator[Message]:
    """Yield the messages of all stories in the order of their due times, keeping few of them in memory.

    Messages that are due at one time keep the order in which they were brought.

    Args:
        stories: the time at which each story begins, which never goes back, and its messages, none of which
            is due before that time.
    """
    serial = count()  # keeps the heap from comparing messages of equal times
    waiting: list[tuple[float, int, Message]] = []
    for begin, story in stories:
        while waiting and waiting[0][0] <= begin:
            yield heapq.heappop(waiting)[2]
        for message in story:
            heapq.heappush(waiting, (message.due_seconds, next(serial), message))
    while waiting:
        yield heapq.heappop(waiting)[2]
