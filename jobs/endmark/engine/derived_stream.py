"""The results of a stage as a derived stream of the next one.

The next stage has buckets of its own key. In every batch, each bucket of the earlier stage sends each of
these buckets its share of the results, and a report. A report has the bucket's statements on patterns, and
the least event time that its later results may have. So a bucket of the next stage aligns the reports itself:
a pattern that all buckets announce together is a promise of the derived stream, and the least of the times is
its progress. The derived stream counts as one partition whose promises stand behind the rows of their batch.
No row of it ever breaks a promise or is late.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from endmark.engine import channels
from endmark.engine.channels import stream_channel
from endmark.engine.closing_patterns import ClosingPatterns, narrowed
from endmark.engine.streams import StreamPlan, arrow_schema, microseconds
from endmark.metrics import sample
from endmark.operators.stream_join.event_times import NEVER
from endmark.operators.stream_join.pattern_reports import aligned
from endmark.operators.stream_join.side import SideSpec
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
        patterns: reads the announced patterns, which are promises of the stream.
        reporters: the number of buckets of the earlier stage.
        buckets: the buckets of the next stage.
        same_key: the positions of its key's columns in the key of the earlier stage; empty if that is another
            key. If not, keys that the earlier stage announces one by one are closed.
        written: the channel of all results for tables and topics; `None` if none has them.
    """

    stream: StreamPlan
    patterns: ClosingPatterns
    reporters: int
    buckets: Buckets
    same_key: tuple[int, ...]
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
        schema, columns = arrow_schema(dict(stage.columns.of(name))), stage.key_columns(name)
        equals = {equal: column for column in columns for equal in earlier.equal_columns(column)}
        beside = stage.promises.beside_key
        side = SideSpec(
            name=name,
            key=KeySpec.of(list(columns), [schema.field(column).type for column in columns]),
            time=stage.time_of(name),
            schema=schema,
            partition=None,
            offset=None,
            window=microseconds(stage.window_of(name)),
            punctuated_on=(*columns, *beside),
            times=stage.pipeline.derived_times.get(name),
        )
        arriving = dict(stage.columns.arriving(name))
        stream = StreamPlan(name, "", arriving, side.punctuated_on, columns, side)
        role = step_role(str(earlier.steps.end))
        written = role if role in stage.pipeline.outputs.step_roles else None
        patterns = ClosingPatterns(equals | {column: column for column in beside}, earlier.present_keys)
        return cls(stream, patterns, len(buckets), buckets, stage.same_key, written)

    def hand_over(
        self, label: int, output: Iterable[tuple[str, bytes | pa.RecordBatch]]
    ) -> Iterator[tuple[int, str, bytes]]:
        """Send the output of a bucket of the earlier stage to the buckets of the next one.

        A result with a null in the key is dropped and counted.

        Args:
            label: the label of the bucket. What only the sink needs, and what the next stage has of streams
                of its own, goes on under this label.
            output: the output of the bucket. Results and closed keys are record batches.

        Yields:
            Packed rows: the label of a bucket of the next stage, the channel and the blob.

        Raises:
            AssertionError: the bucket has made no report.
        """
        reported, counts = False, Counter[str]()
        for channel, blob in output:
            if isinstance(blob, pa.RecordBatch):
                closes = channel == channels.CLOSED_KEYS
                yield from self._closing(blob) if closes else self._results(label, blob, counts)
            elif channel == channels.REPORT:
                reported, report = True, json.loads(blob)
                statements = narrowed([self.patterns], report) | {"progress": report["progress"]}
                for bucket in self.buckets.labels:
                    yield bucket, channel, json.dumps(statements | {"to": bucket}).encode()
            else:
                yield label, channel, blob
        if not reported:
            raise AssertionError(f"bucket {label} has made no report for the next stage")
        if counts:
            yield label, channels.METRICS, json.dumps({"samples": counts}).encode()

    def _results(
        self, label: int, rows: pa.RecordBatch, counts: Counter[str]
    ) -> Iterator[tuple[int, str, bytes]]:
        """Send results to their buckets of the next stage, and to their table; `counts` collects metrics."""
        name, key = self.stream.name, self.stream.side.key
        if self.written is not None:
            if self.written == step_role(name):  # otherwise the row steps behind the join count them
                counts[sample("step_rows_total", step=name)] += rows.num_rows
            yield label, self.written, codec.encode(rows)
        null = nulls(rows, list(key.columns))
        if null.any():
            counts[sample("join_null_key_rows_total", stream=name)] += int(null.sum())
            rows = rows.filter(pa.array(~null))
        for bucket, share in self.buckets.by_key(rows, key):
            yield bucket, stream_channel(channels.ROWS, name), codec.encode(share)

    def _closing(self, announced: pa.RecordBatch) -> Iterator[tuple[int, str, bytes]]:
        """Send keys that the earlier stage announces one by one. They close nothing if the key is another."""
        if self.same_key:
            for bucket, keys in self._shares([announced.column(number) for number in self.same_key]):
                yield bucket, stream_channel(channels.CLOSED_KEYS, self.stream.name), codec.encode(keys)

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
        closed = [self._closed_keys(named, reports[0]["to"]), batch.closed_keys]
        reached = min(report["progress"] for report in reports)
        return replace(
            batch,
            closed_keys=codec.concat(there)
            if (there := [keys for keys in closed if keys is not None])
            else None,
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
                raise AssertionError(f"{text} is no promise of {self.stream.name}")
            promise = self.stream.side.codec.read_patterns(restricted, _ORIGIN)
            if keys := promise.keys_named(on):
                named |= {tuple(key[name] for name in on): key for key in keys}
            else:
                promises[json.dumps(restricted, sort_keys=True)] = promise
        return list(promises.values()), list(named.values())

    def _closed_keys(self, named: list[dict[str, Any]], label: int) -> pa.RecordBatch | None:
        """Return the keys of a bucket among those that patterns name; `None` without any."""
        side = self.stream.side
        kinds = pa.schema([side.schema.field(name) for name in side.key.columns])
        keys = pa.RecordBatch.from_pylist(named, kinds)
        return next((share for bucket, share in self._shares(keys.columns) if bucket == label), None)

    def _shares(self, keys: list[pa.Array]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the closed keys of each bucket, given the columns of keys."""
        shared = self.stream.side.key.shared
        nothing = pa.array([0] * len(keys[0]), pa.int64())
        table = pa.record_batch([*keys, nothing, nothing], [*shared.columns, "partition", "offset"])
        return self.buckets.by_key(table, shared)
