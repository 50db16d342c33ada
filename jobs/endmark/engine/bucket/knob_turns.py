"""Knobs in the task of a bucket: a turn changes the plan from the next batch on.

So a repeated batch runs by the same plan as before.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from endmark.control.tuning.knobs import stale
from endmark.engine.bucket.lookup_plan import share
from endmark.engine.bucket.process_caches import directory_of
from endmark.operators.lookup.reader import Budget
from endmark.operators.lookup.strategies import STRATEGIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from endmark.control.tuning.knobs import Steps
    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.bucket.plan import BucketPlan
    from endmark.engine.streams import StreamPlan
    from endmark.operators.lookup.strategies import Name
    from endmark.operators.stream_join.members import Member

Plan = TypeVar("Plan")


class Knobs:
    """The turned knobs of one bucket, by the names of `endmark.control.tuning.knobs`.

    Attributes:
        ignored: reasons why restored values are ignored. The pipeline file does not allow these values any
            more.

    Args:
        restored: a snapshot; `None` without one.
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
        """Return the state for a later task; `None` if no knob was ever turned."""
        if self._restored is None and not self._values:
            return None
        return json.dumps(self._values).encode()

    def turn(self, blobs: Iterable[bytes]) -> None:
        """Remember the turns of a batch, in the order of their records."""
        for knob in sorted(map(json.loads, blobs), key=lambda knob: (knob["partition"], knob["offset"])):
            self._values[knob["name"]] = knob["value"]

    def turned(self, plan: BucketPlan) -> BucketPlan:
        """Return the plan with the values of turned knobs. Its other fields do not change."""
        plan = self._applied(plan, plan.step, _JOIN)
        streams = tuple(map(self._with_event_times, plan.streams))
        lookups = tuple(
            self._applied(self._with_pages(lookup), lookup.step, _LOOKUP) for lookup in plan.lookups
        )
        return replace(plan, streams=streams, lookups=lookups)

    def _with_event_times(self, plan: StreamPlan) -> StreamPlan:
        """Return the plan of a stream, or of a union, each of whose members has knobs of its own."""
        if not plan.members:
            return self._applied(plan, f"streams.{plan.name}.event_time", _EVENT_TIME)
        members = tuple(
            self._applied(member, f"streams.{member.stream}.event_time", _MEMBER_TIME)
            for member in plan.side.members
        )
        return replace(plan, side=replace(plan.side, members=members))

    def _with_pages(self, plan: LookupPlan) -> LookupPlan:
        """Return the plan with the pages of this process. The cost of a page scales with its size."""
        if plan.source.directory.unpaged is not None:
            return plan
        page_rows = self._values.get(f"{plan.step}.page_rows", plan.page_rows)
        source, directory = plan.source, directory_of(plan, page_rows)
        costs = source.costs.cut(len(source.directory), len(directory))
        return replace(plan, source=replace(source, directory=directory, costs=costs))

    def _applied(self, plan: Plan, step: str, knobs: Mapping[str, Callable[[Plan, Any], Plan]]) -> Plan:
        for field, apply in knobs.items():
            if (name := f"{step}.{field}") in self._values:
                plan = apply(plan, self._values[name])
        return plan


def _with_purging(plan: BucketPlan, every: int) -> BucketPlan:
    if plan.policy.purge_every is None:  # the preset never purges
        return plan
    return replace(plan, policy=replace(plan.policy, purge_every=every))


def _with_memory(plan: BucketPlan, memory: int | None) -> BucketPlan:
    memory = None if memory is None else memory // plan.buckets
    return replace(plan, policy=replace(plan.policy, memory=memory))


def _with_idle(stream: StreamPlan, seconds: float) -> StreamPlan:
    return replace(stream, side=replace(stream.side, idle=_microseconds(seconds)))


def _with_own_idle(member: Member, seconds: float) -> Member:
    return replace(member, idle=_microseconds(seconds))


def _with_strategy(plan: LookupPlan, name: Name) -> LookupPlan:
    """Return the plan with another strategy.

    A strategy that reads pages was turned to before the relation lost its pages. The job has said that it
    ignores it.
    """
    if plan.source.directory.unpaged is not None and STRATEGIES[name].by_pages:
        return plan
    return replace(plan, source=replace(plan.source, strategy=name))


def _with_time(plan: LookupPlan, seconds: float | None) -> LookupPlan:
    lookup = replace(plan.gate.lookup, budget=Budget(seconds=seconds))
    return replace(plan, gate=replace(plan.gate, lookup=lookup, carries=seconds is not None))


def _with_capacity(plan: LookupPlan, memory: int) -> LookupPlan:
    lookup = replace(plan.gate.lookup, capacity=share(memory, plan.buckets))
    return replace(plan, gate=replace(plan.gate, lookup=lookup))


def _with_cache(plan: LookupPlan, **settings: int) -> LookupPlan:
    return plan if plan.cache is None else replace(plan, cache=replace(plan.cache, **settings))


def _microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)


# The changes of a plan by turns, by the knob's name within its step. The driver handles the knobs of `batch`.
_JOIN: dict[str, Callable[[BucketPlan, Any], BucketPlan]] = {
    "purge_every": _with_purging,
    "memory": _with_memory,
}
_EVENT_TIME: dict[str, Callable[[StreamPlan, Any], StreamPlan]] = {"idle": _with_idle}
_MEMBER_TIME: dict[str, Callable[[Member, Any], Member]] = {"idle": _with_own_idle}
_LOOKUP: dict[str, Callable[[LookupPlan, Any], LookupPlan]] = {
    "strategy": _with_strategy,
    "time_per_batch": _with_time,
    "memory": _with_capacity,
    "cache.memory": lambda plan, memory: _with_cache(plan, capacity=memory),
    "cache.lifetime": lambda plan, seconds: _with_cache(plan, lifetime=_microseconds(seconds)),
    "cache.absent_lifetime": lambda plan, seconds: _with_cache(plan, absent_lifetime=_microseconds(seconds)),
}
