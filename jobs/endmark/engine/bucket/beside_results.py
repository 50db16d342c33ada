"""The violations, dead letters and announced keys of a batch, which the join hands on beside its results."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.engine import channels, frame_rejects
from endmark.engine.bucket.lookups import missed_letters
from endmark.engine.violation_rows import violation_rows
from endmark.metrics import sample
from endmark.punctuation.json_text import named
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.engine.bucket.plan import BucketPlan
    from endmark.operators.stream_join.segment_join import BatchOutput, SegmentJoin


def violations(plan: BucketPlan, output: BatchOutput) -> Iterator[tuple[str, bytes]]:
    """Yield the violations of a batch of the join, as rows of their table or as texts of a frame."""
    for violation in output.violations:
        stream, derived = plan.stream(violation.side), plan.derived
        if derived is not None and stream.name == derived.stream.name:
            raise AssertionError(f"rows of {stream.name} are {violation.reason}, though no row can be")
        if plan.in_band:
            yield channels.REFUSED, codec.encode(frame_rejects.violations(stream, violation))
        elif stream.side.partition is not None:  # rows of a frame have no coordinates
            rows = violation_rows(stream, violation.reason, violation.rows, violation.promises)
            yield channels.VIOLATIONS, codec.encode(rows)


def announced_keys(plan: BucketPlan, join: SegmentJoin) -> Iterator[tuple[str, bytes | pa.RecordBatch]]:
    """Yield rows of the punctuations table for the keys that the join's last batch announces.

    The next stage gets the keys themselves, as a record batch.

    Each key is announced once for the key columns of each side that results show. A result of an outer
    join may have one side alone, so one punctuation on the columns of both would not cover it.
    """
    for by, keys in join.output.announced_by.items():
        values = [keys.column(name) for name in join.key.columns]
        if plan.goes_on:
            yield channels.CLOSED_KEYS, keys.select(list(join.key.columns))
            continue
        for side in join.shown:
            texts = named(dict(zip(side.spec.key.columns, values, strict=True)))
            reasons = pa.repeat(pa.scalar(by), len(texts))
            rows = pa.record_batch([texts, reasons], schema=channels.PUNCTUATION_SCHEMA)
            yield channels.ANNOUNCED, codec.encode(rows)


def missed(plan: BucketPlan, output: BatchOutput, samples: Counter[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the dead letters of rows that lookups or the row steps behind them have given up."""
    for stream in plan.streams:
        rows = output.bystanders.get(stream.name)
        if rows is None:
            continue
        lookups, steps = plan.lookups_of(stream.name), plan.looked_up.get(stream.name, ())
        for read, reason, letters in missed_letters(stream, lookups, steps, rows):
            name = sample("dead_letters_total", stream=read.name, reason=reason)
            samples[name] += letters.num_rows
            yield channels.DEAD_LETTERS, codec.encode(letters)
