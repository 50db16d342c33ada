"""Knobs in the task of a bucket: a turn changes the plan from the next batch on.

So a batch that is repeated runs by the same plan as before.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from endmark.control.knobs import lookup_steps, stale
from endmark.engine.bucket.lookup_plan import share
from endmark.engine.bucket.process_caches import directory_of
from endmark.operators.lookup.reader import Budget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.control.knobs import Steps
    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.bucket.plan import BucketPlan
    from endmark.engine.streams import StreamPlan
    from endmark.operators.lookup.cache import CacheSpec
    from endmark.operators.lookup.join import Source


class Knobs:
    """The turned knobs of one bucket, by the names of `endmark.control.knobs`.

    Attributes:
        ignored: for each restored value that the pipeline file does not allow any more, the reason.

    Args:
        restored: a snapshot.
        steps: the settings of the pipeline's steps that have knobs.
    """

    def __init__(self, restored: bytes | None, steps: Steps) -> None:
        self._restored = restored
        self._values: dict[str, Any] = {}
        self.ignored: list[str] = []
        for name, value in ({} if restored is None else json.loads(restored)).items():
            if (why := stale(steps, name, value)) is None:
                self._values[name] = value
            else:
                self.ignored.append(why)

    def snapshot(self) -> bytes | None:
        """`None` if no knob was ever turned."""
        if self._restored is None and not self._values:
            return None
        return json.dumps(self._values).encode()

    def turn(self, blobs: Iterable[bytes]) -> None:
        """Remember the turns of a batch, in the order of their records."""
        for knob in sorted(map(json.loads, blobs), key=lambda knob: (knob["partition"], knob["offset"])):
            self._values[knob["name"]] = knob["value"]

    def turned(self, plan: BucketPlan) -> BucketPlan:
        """Return the plan with the turned values; its other fields stay as they are."""
        every = self._values.get("join.purge_every")
        if every is not None and plan.policy.purge_every is not None:  # else the preset never purges
            plan = replace(plan, policy=replace(plan.policy, purge_every=every))
        if "join.memory" in self._values:
            memory = self._values["join.memory"]
            memory = None if memory is None else memory // plan.buckets
            plan = replace(plan, policy=replace(plan.policy, memory=memory))
        plan = replace(plan, left=self._waiting(plan.left), right=self._waiting(plan.right))
        steps = lookup_steps([each.relation for each in plan.lookups])
        return replace(plan, lookups=tuple(map(self._looking_up, plan.lookups, steps)))

    def _waiting(self, stream: StreamPlan) -> StreamPlan:
        idle = self._values.get(f"streams.{stream.name}.event_time.idle")
        if idle is None:
            return stream
        return replace(stream, side=replace(stream.side, idle=_microseconds(idle)))

    def _looking_up(self, plan: LookupPlan, step: str) -> LookupPlan:
        if (strategy := f"{step}.strategy") in self._values:
            plan = replace(plan, source=replace(plan.source, strategy=self._values[strategy]))
        if (page_rows := f"{step}.page_rows") in self._values:
            plan = replace(plan, source=_cut(plan, self._values[page_rows]))
        if (time_per_batch := f"{step}.time_per_batch") in self._values:
            seconds = self._values[time_per_batch]
            lookup = replace(plan.gate.lookup, budget=Budget(seconds=seconds))
            plan = replace(plan, gate=replace(plan.gate, lookup=lookup, carries=seconds is not None))
        if (memory := f"{step}.memory") in self._values:
            lookup = replace(plan.gate.lookup, capacity=share(self._values[memory], plan.buckets))
            plan = replace(plan, gate=replace(plan.gate, lookup=lookup))
        return plan if plan.cache is None else replace(plan, cache=self._caching(plan.cache, f"{step}.cache"))

    def _caching(self, cache: CacheSpec, step: str) -> CacheSpec:
        if (memory := f"{step}.memory") in self._values:
            cache = replace(cache, capacity=self._values[memory])
        if (lifetime := f"{step}.lifetime") in self._values:
            cache = replace(cache, lifetime=_microseconds(self._values[lifetime]))
        if (absent := f"{step}.absent_lifetime") in self._values:
            cache = replace(cache, absent_lifetime=_microseconds(self._values[absent]))
        return cache


def _cut(plan: LookupPlan, page_rows: int) -> Source:
    """Return the relation in pages of another size. The cost of a page scales with its size."""
    source, directory = plan.source, directory_of(plan, page_rows)
    costs = source.costs.cut(len(source.directory), len(directory))
    return replace(source, directory=directory, costs=costs)


def _microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)
