"""The size and frequency of a pipeline's batches."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from endmark.pipeline.change_rules import AtRestart, Knob
from endmark.pipeline.fields import Cadence, Model, Records


class Batch(Model):
    """The size and frequency of batches.

    A batch reads `records` records at most, of all topics together. `every` is the least time from the start
    of one batch to the start of the next.

    A batch of fewer than `pause_below` records is a pause: it leaves no row waiting for a relation, and joins
    rows that are spilled. `null` stands for the most records that a batch may read.
    """

    records: Annotated[
        Records,
        Knob(
            "number",
            "1 to 1000000000",
            "The most records that a batch reads. The job starts its query again between two batches.",
        ),
    ] = 500_000
    every: Annotated[
        Cadence,
        Knob(
            "duration",
            "such as 500ms or 10s, up to 1d",
            "The least time between the starts of two batches. The job starts its query again between them.",
        ),
    ] = timedelta(seconds=1)
    pause_below: AtRestart[Records | None] = None
