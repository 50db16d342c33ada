"""A pipeline's stages on records, and on turns of its knobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from endmark.engine import channels
from endmark.metrics import add
from endmark.relation.contract import PagedRelation
from endmark.wire.control import Turn
from support.bucket_tasks import BUCKETS, BucketTasks, Located
from support.verify_world import Record, make_pipeline

SELLERS = [(1, "Ann", 4.5)]
PLACES = {"lookup": "steps.known.lookup.", "join": "steps.matched.", "batch": "batch.", "streams": "streams."}


class Turning:
    """Batches of a pipeline and what they tell."""

    def __init__(self, directory: Path, sellers: list[Any] | PagedRelation = SELLERS, **fields: Any) -> None:
        self._tasks = BucketTasks(
            make_pipeline(windows=(None, None), **fields), sellers, 1, directory, full_batch=1
        )
        self._ends: dict[str, int] = {}

    def batch(self, *records: Record, **knobs: Any) -> dict[str, float]:
        turns = [
            Record("small-control", 0, Turn(PLACES[step] + field.replace("__", "."), to, "Ann").written())
            for (step, _, field), to in ((name.partition("__"), to) for name, to in knobs.items())
        ]
        located: list[Located] = []
        for record in [*records, *turns]:
            offset = self._ends.get(record.topic, 0)
            self._ends[record.topic] = offset + 1
            located.append((record.topic, 0, offset, record.value, record.timestamp))
        self._tasks.batch(located)
        return add(report["samples"] for report in self.reports)

    @property
    def reports(self) -> list[dict[str, Any]]:
        """Return the reports of the last batch."""
        return self._tasks.reports

    def spoil(self, name: str, value: Any) -> None:
        """Have state say that a knob was turned to something that it cannot be turned to."""
        blob = json.dumps({"partition": 0, "offset": -1, "name": name, "value": value}).encode()
        self._tasks.tell(channels.KNOBS, blob)


def keys_of(bucket: int) -> list[int]:
    numbers = np.arange(100)
    found: list[int] = numbers[BUCKETS.of_keys(numbers) == bucket].tolist()
    return found
