"""The results of a stage as a derived stream of the next one.

The next stage has buckets of its own key. In every batch, each bucket of the earlier stage sends each of
these buckets its share of the results, and a report. A report has the bucket's statements on patterns that
can close a key, and the least event time that its later results may have. So a bucket of the next stage
aligns the reports itself: a pattern that all buckets announce together is a promise of the derived stream,
and the least of the times is its progress. The derived stream counts as one partition whose promises stand
behind the rows of their batch. No row of it ever breaks a promise or is late.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from endmark.engine import channels
from endmark.engine.channels import stream_channel
from endmark.engine.closing_patterns import ClosingPatterns
from endmark.engine.ingest.punctuation_rows import closed_keys
from endmark.engine.streams import StreamPlan, arrow_schema, microseconds
from endmark.metrics import sample
from endmark.operators.stream_join.announce import aligned
from endmark.operators.stream_join.side import NEVER, SideSpec
from endmark.pipeline.tables import step_role
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state import codec
from endmark.state.keys import KeySpec, nulls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from endmark.engine.channels import Buckets
    from endmark.operators.stream_batch import StreamBatch
    from endmark.pipeline.stage import Stage

_ORIGIN = Origin(0, 0)  # of all promises of a derived stream


@dataclass(frozen=True)
class DerivedStream:
    """The plan of a derived stream. It is pickled and travels to the tasks of both stages.

    Args:
        stream: the stream as an input of the next stage.
        patterns: reads the patterns that close keys.
        reporters: the number of buckets of the earlier stage.
        buckets: the buckets of the next stage.
        written: the channel of all results for tables and topics; `None` if none has them.
    """

    stream: StreamPlan
    patterns: ClosingPatterns
    reporters: int
    buckets: Buckets
    written: str | None

    @classmethod
    def of(cls, stage: Stage, earlier: Stage, buckets: Buckets) -> Self:
        """Make the plan of the derived stream of a stage.

        Args:
            stage: the stage that takes its rows.
            earlier: the stage whose results they are.
            buckets: the buckets of each stage.
        """
        name = str(stage.derived)
        schema, columns = arrow_schema(dict(stage.columns_of(name))), stage.key_columns(name)
        equals = {equal: column for column in columns for equal in earlier.equal_columns(column)}
        side = SideSpec(
            name=name,
            key=KeySpec.of(list(columns), [schema.field(column).type for column in columns]),
            time=stage.time_of(name),
            schema=schema,
            partition=None,
            offset=None,
            window=microseconds(stage.window_of(name)),
            punctuated_on=columns,
        )
        arriving = dict(stage.arriving(name))
        stream = StreamPlan(name, "", arriving, side.punctuated_on, columns, side)
        role = step_role(str(earlier.steps.end))
        written = role if role in stage.pipeline.step_roles else None
        return cls(stream, ClosingPatterns(equals, earlier.present_keys), len(buckets), buckets, written)

    def hand_over(
        self, label: int, output: Iterable[tuple[str, bytes | pa.RecordBatch]]
    ) -> Iterator[tuple[int, str, bytes]]:
        """Send the output of a bucket of the earlier stage to the buckets of the next one.

        A result with a null in the key is dropped and counted. The keys that the earlier stage announces one
        by one are no statements about the results of the next one.

        Args:
            label: the label of the bucket. What only the sink needs, and what the next stage has of streams
                of its own, goes on under this label.
            output: the output of the bucket. Results are record batches.

        Yields:
            Packed rows: the label of a bucket of the next stage, the channel and the blob.

        Raises:
            AssertionError: the bucket has made no report.
        """
        name, key, reported, dropped, shown = self.stream.name, self.stream.side.key, False, 0, 0
        for channel, blob in output:
            if isinstance(blob, pa.RecordBatch):
                if self.written is not None:
                    shown += blob.num_rows if self.written == step_role(name) else 0  # else row steps count
                    yield label, self.written, codec.encode(blob)
                null = nulls(blob, list(key.columns))
                dropped += int(null.sum())
                rows = blob.filter(pa.array(~null)) if null.any() else blob
                for bucket, share in self.buckets.by_key(rows, key):
                    yield bucket, stream_channel(channels.ROWS, name), codec.encode(share)
            elif channel == channels.REPORT:
                reported, report = True, json.loads(blob)
                told = self.patterns.narrowed(report) | {"progress": report["progress"]}
                for bucket in self.buckets.labels:
                    yield bucket, channel, json.dumps(told | {"to": bucket}).encode()
            elif channel != channels.ANNOUNCED:
                yield label, channel, blob
        if not reported:
            raise AssertionError(f"bucket {label} has made no report for the next stage")
        counts = {
            sample("join_null_key_rows_total", stream=name): dropped,
            sample("step_rows_total", step=name): shown,
        }
        if samples := {metric: rows for metric, rows in counts.items() if rows}:
            yield label, channels.METRICS, json.dumps({"samples": samples}).encode()

    def with_reports(self, batch: StreamBatch, written: Iterable[bytes]) -> StreamBatch:
        """Return a batch of the derived stream with the promises and the progress that reports make.

        Args:
            batch: the rows of the batch.
            written: the reports of all buckets of the earlier stage, as one bucket has got them.

        Raises:
            AssertionError: a report is missing.
        """
        reports: list[dict[str, Any]] = [json.loads(one) for one in written]
        if len(reports) != self.reporters:
            raise AssertionError(
                f"{len(reports)} of {self.reporters} buckets have reported on {self.stream.name}"
            )
        promises, named = self._promises(aligned(reports))
        reached = min(report["progress"] for report in reports)
        return replace(
            batch,
            closed_keys=self._closed_keys(named, reports[0]["to"]),
            promises=promises,
            key_promises=self.stream.side.codec.on_key(promises),
            newest={} if reached == NEVER else {0: reached},
        )

    def _promises(self, patterns: Iterable[str]) -> tuple[list[Punctuation], list[dict[str, Any]]]:
        """Return the promises that announced patterns are, and the keys that others of them name."""
        on = self.stream.side.key.columns
        promises: dict[str, Punctuation] = {}
        named: dict[tuple[Any, ...], dict[str, Any]] = {}
        for text in patterns:
            restricted = self.patterns.read(text)
            if restricted is None:
                raise AssertionError(f"{text} closes no key of {self.stream.name}")
            promise = self.stream.side.codec.read_patterns(restricted, _ORIGIN)
            if keys := closed_keys(promise, on):
                named |= {tuple(key[name] for name in on): key for key in keys}
            else:
                promises[json.dumps(restricted, sort_keys=True)] = promise
        return list(promises.values()), list(named.values())

    def _closed_keys(self, named: list[dict[str, Any]], label: int) -> pa.RecordBatch | None:
        """Return the keys of a bucket among those that patterns name; `None` without any."""
        side = self.stream.side
        kinds = pa.schema([side.schema.field(name) for name in side.key.columns])
        keys = pa.RecordBatch.from_pylist(named, kinds)
        nothing = pa.array([0] * keys.num_rows, pa.int64())
        shared = side.key.shared
        table = pa.record_batch([*keys.columns, nothing, nothing], [*shared.columns, "partition", "offset"])
        return next((share for bucket, share in self.buckets.by_key(table, shared) if bucket == label), None)
