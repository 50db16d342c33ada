"""The task of one bucket in one batch: lookups, join and group-by, without a shuffle between them."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark.engine import channels, frame_rejects
from endmark.engine.bucket.answers import answers
from endmark.engine.bucket.beside_results import announced_keys, missed, violations
from endmark.engine.bucket.final_groups import close_final
from endmark.engine.bucket.knob_turns import Knobs
from endmark.engine.bucket.latest_rows import LatestRows
from endmark.engine.bucket.lookups import Lookups
from endmark.engine.bucket.output_counts import count_output
from endmark.engine.bucket.plan import require_same
from endmark.engine.bucket.result_steps import ResultSteps
from endmark.engine.bucket.state_samples import progress_samples, state_samples
from endmark.engine.bucket.unpacking import unpacked
from endmark.engine.groups.bucket_groups import BucketGroups
from endmark.engine.snapshot_parts import GROUPS, decode_parts, encode_parts, with_prefix
from endmark.metrics import Samples, sample
from endmark.operators.nary_join.join import NaryJoin
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.pattern_reports import Report, bound_changes
from endmark.pipeline.tables import deleted_role
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from endmark.engine.bucket.plan import BucketPlan
    from endmark.operators.stream_join.segment_join import SegmentJoin
    from endmark.state.keys import Share
    from endmark.state.store import SegmentStore


# The parts of a snapshot; `LOOKUP` begins the names of those of lookups.
_JOIN, _KNOBS, LOOKUP = "join", "knobs", "lookup "


class BucketTask:
    """Runs the batches of one bucket, from blobs to blobs.

    Args:
        plan: the plan of all buckets.
        store: keeps the bucket's segments.
        restored: the state after an earlier batch; `None` before the first.
    """

    def __init__(self, plan: BucketPlan, store: SegmentStore, restored: bytes | None) -> None:
        parts = {} if restored is None else decode_parts(restored)
        self._knobs = Knobs(parts.get(_KNOBS), plan.steps)
        self._plan = plan = self._knobs.turned(plan)
        self._profile = store.profile
        self._join = _join(plan, store, parts.get(_JOIN))
        if restored is not None:
            require_same(self._join.notes["made_with"], plan.made_with)
        else:
            self._join.notes["buckets"] = plan.buckets
        self._join.notes["made_with"] = dict(plan.made_with)
        had = with_prefix(GROUPS, parts)
        self._groups = [BucketGroups(each, store, had.get(each.step)) for each in plan.groups]
        self._lookups = Lookups(plan.lookups, store, with_prefix(LOOKUP, parts), plan.looked_up, plan.streams)
        self._behind = ResultSteps(plan.behind)
        self._times = self._join.times()
        self._latest = {step.role: LatestRows(step) for step in plan.written if step.key}

    def keep(self, share: Share) -> None:
        """Drop what belongs to other buckets, if the restored state is that of a bucket with more keys.

        No row may wait in a lookup.
        """
        if self._join.notes["buckets"] == share.buckets:
            return
        if not self._lookups.is_idle:
            raise AssertionError("rows wait in a lookup while buckets are split")
        self._join.keep(share)
        for groups in self._groups:
            groups.keep(share)
        self._join.notes["buckets"] = share.buckets

    def snapshot(self) -> bytes:
        """Return the state for `restored`, without the segments."""
        parts = {_JOIN: self._join.snapshot(), _KNOBS: self._knobs.snapshot()}
        parts |= {f"{GROUPS}{groups.plan.step}": groups.snapshot() for groups in self._groups}
        parts |= {f"{LOOKUP}{relation}": data for relation, data in self._lookups.snapshot().items()}
        return encode_parts(parts)

    def run(self, packed: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes | pa.RecordBatch]]:
        """Run one batch.

        Args:
            packed: the blobs of the batch, each with its channel.

        Yields:
            Blobs for the sink, each with its channel. Results, and closed keys for the next stage, are record
            batches.
        """
        arrived: dict[str, list[bytes]] = {}
        for channel, blob in packed:
            if self._plan.passes_on(channel):
                yield channel, blob
            if self._plan.takes(channel):
                arrived.setdefault(channel, []).append(blob)
        pause = self._is_pause(arrived)
        with self._profile.phase("unpack"):
            came = self._batches(arrived)
        samples: Counter[str] = Counter()
        before = self._times
        with self._profile.phase("lookup"):
            looked_up = self._lookups.process(came, pause=pause)
        # One gate may let in more batches than the other.
        entering = list(zip_longest(*looked_up.values(), fillvalue=StreamBatch()))
        patterns = Report()
        for number, batches in enumerate(entering, 1):
            yield from self._step(batches, samples, catch_up=pause and number == len(entering))
            if number == len(entering):
                self._expect_promises()
            patterns = patterns.then(self._join.output.patterns)
        yield from self._latest_rows(samples)
        # The sink of a pipeline adds the number of the batch. A frame has no such sink.
        batch = self._join.spiller.batch_number if self._plan.in_band else None
        for groups in self._groups:
            yield from groups.changed(samples, batch)
        patterns.times = bound_changes(before, self._join.times())
        yield from self._report(patterns)
        if self._plan.in_band and self._join.failures.count:
            yield channels.REFUSED, codec.encode(frame_rejects.failures(self._join.failures))
        # These count from the next batch on.
        self._join.notes["full_batch"] = self._plan.full_batch
        self._knobs.turn(arrived.get(channels.KNOBS, []))
        questions = arrived.get(channels.QUESTIONS, [])
        yield channels.METRICS, json.dumps(self._metrics(samples, questions)).encode()

    def _is_pause(self, arrived: Mapping[str, list[bytes]]) -> bool:
        """Return whether all tasks together have read fewer records than make a full batch."""
        records = sum(json.loads(blob)["records"] for blob in arrived.get(channels.READ, []))
        full = self._join.notes.get("full_batch")
        return full is None or records < full

    def _metrics(self, samples: Counter[str], questions: list[bytes]) -> dict[str, Any]:
        """Return the report of a batch for the sink, ready for JSON. Call it when the batch is over.

        Args:
            samples: the metrics that the batch has collected. Those of the lookups and of state are added.
            questions: the questions that the batch has brought.
        """
        failures = self._join.failures
        samples[sample("join_failed_pairs_total")] += failures.count
        samples.update(self._lookups.samples())
        samples.update(state_samples(self._join, self._groups))
        samples.update(self._behind.samples)
        return {
            "samples": dict(samples),
            "alike": self._progress(),
            "failures": [*failures.reports(), *self._lookups.failures(), *self._behind.reports()],
            "ignored": self._knobs.ignored,
            "answers": list(answers(questions, self._plan, self._join, self._lookups, self._groups)),
            "greatest": self._lookups.ages(),
            "least": self._lookups.times(owed=self._join.spiller.owes),
        }

    def _batches(self, arrived: Mapping[str, list[bytes]]) -> dict[str, StreamBatch]:
        """Unpack the batch of each stream, given the blobs of the bucket by channel."""
        came = {
            stream.name: unpacked(stream, arrived, looked_up=stream.name in self._lookups.streams)
            for stream in self._plan.streams
        }
        if (derived := self._plan.derived) is not None:
            name, reports = derived.stream.name, arrived.get(channels.REPORT, [])
            came[name] = derived.with_reports(came[name], reports)
        return came

    def _report(self, patterns: Report) -> Iterator[tuple[str, bytes]]:
        """Yield the statements of a batch for the next stage, or for the sink."""
        if self._plan.goes_on:
            # The report is sent even if it is empty, so that silence is not taken for a statement.
            report = vars(patterns) | {"progress": self._join.oldest_to_come}
            yield channels.REPORT, json.dumps(report).encode()
        elif patterns:
            yield channels.PATTERNS, json.dumps(vars(patterns)).encode()

    def _expect_promises(self) -> None:
        """Tell the join which promises wait in lookups. It holds back the patterns that these complete."""
        for side in self._join.sides:
            if side.spec.name in self._lookups.streams:
                self._join.expect(side, self._lookups.held_promises(side.spec.name))

    def _step(
        self, batches: Sequence[StreamBatch], samples: Counter[str], *, catch_up: bool
    ) -> Iterator[tuple[str, bytes | pa.RecordBatch]]:
        """Run one batch of the join, and fold its results into groups.

        Args:
            batches: the batch of each stream, in the order of the join's sides.
            samples: collects the metrics.
            catch_up: whether to join spilled rows.
        """
        measured: list[list[pa.RecordBatch]] = [[] for _ in self._groups]
        for result in self._stepped(channels.gathered(self._results(batches, catch_up=catch_up))):
            if self._plan.shows_results:
                yield channels.RESULTS, result
            for groups, inputs in zip(self._groups, measured, strict=True):
                inputs.append(groups.inputs(result))
        yield from violations(self._plan, self._join.output)
        yield from announced_keys(self._plan, self._join)
        yield from missed(self._plan, self._join.output, samples)
        yield from self._step_rows(batches, samples)
        count_output(self._plan, self._join.output, samples)
        times = self._join.times()
        past = {} if times == self._times else {name: bound.pattern for name, bound in times.items()}
        self._times = times
        for groups, inputs in zip(self._groups, measured, strict=True):
            close = partial(close_final, plan=groups.plan, past=past, join=self._join)
            yield from groups.fold(inputs, close, samples)

    def _results(self, batches: Sequence[StreamBatch], *, catch_up: bool) -> Iterator[pa.RecordBatch]:
        """Yield the results of the join, and with `catch_up` also those that spilled rows are owed."""
        yield from self._join.process(*batches)
        if catch_up:
            yield from self._join.drain()

    def _stepped(self, results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results that the row steps behind the join leave."""
        if not self._plan.behind.steps:
            yield from results
            return
        for result in results:
            with self._profile.phase("step"):
                left = self._behind.through(result)
            if left.num_rows:
                yield left

    def _step_rows(
        self, batches: Sequence[StreamBatch], samples: Counter[str]
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the rows of streams and steps in front of the join that tables and topics get.

        Rows that replace earlier ones are kept for `_latest_rows`.

        Args:
            batches: the batch of each stream, in the order of the join's sides.
            samples: collects the metrics.
        """
        deleted = {
            stream.name: batch.deleted_keys for stream, batch in zip(self._plan.streams, batches, strict=True)
        }
        for step in self._plan.written:
            output = self._join.output
            rows = step.rows(output.admitted.get(step.stream), output.bystanders.get(step.stream))
            if step.key:
                self._latest[step.role].add(rows, deleted[step.stream])
                continue
            samples[sample("step_rows_total", step=step.name)] += rows.num_rows
            if rows.num_rows:
                yield step.role, codec.encode(rows)

    def _latest_rows(self, samples: Counter[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the newest rows of keys that have changed in the batch, and the keys that are deleted."""
        for latest in self._latest.values():
            rows, deleted = latest.take()
            samples[sample("upserted_rows_total", step=latest.step.name)] += rows.num_rows
            samples[sample("deleted_keys_total", step=latest.step.name)] += deleted.num_rows
            if rows.num_rows:
                yield latest.step.role, codec.encode(rows)
            if deleted.num_rows:
                yield deleted_role(latest.step.name), codec.encode(deleted)

    def _progress(self) -> Samples:
        samples = Samples()
        for side in self._join.sides:
            samples |= progress_samples(side)
        return samples


def _join(plan: BucketPlan, store: SegmentStore, restored: bytes | None) -> SegmentJoin:
    """Return the join of a plan's streams; `restored` is its snapshot, or `None` before the first batch."""
    sides = [stream.side for stream in plan.streams]
    if len(sides) > 2:
        return NaryJoin(
            sides,
            store,
            residual=plan.residual,
            policy=plan.policy,
            buckets=plan.buckets,
            restored=restored,
        )
    left, right = sides
    return StreamJoin(
        left,
        right,
        store,
        kind=plan.kind,
        residual=plan.residual,
        policy=plan.policy,
        buckets=plan.buckets,
        restored=restored,
    )
