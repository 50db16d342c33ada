"""Predictions for lookups with other memory, from the cost model and the costs in the last batches."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from endmark.control.ops_database.forecasts import ForMemory
from endmark.control.tuning.knobs import filed
from endmark.metrics import Samples, add, sample
from endmark.operators.lookup.costs import JoinCosts, ReadCosts
from endmark.operators.lookup.strategies import STRATEGIES
from endmark.operators.lookup.workload import Setup
from endmark.planning.lookup_model import AT_ONCE, WAITING, at_once, chosen_by_auto, with_waiting
from endmark_ops.answers.models import WhatIf, Yield

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from endmark.control.description import Description, LookupDescription
    from endmark.control.ops_database.batches import FinishedBatch
    from endmark.operators.lookup.strategies import Strategy
    from endmark.planning.lookup_model import Prediction

_PARTS = tuple(2.0**power for power in range(-4, 5))
_COSTS = [each.name for each in fields(ReadCosts)]


def what_ifs(
    described: Description,
    turns: Sequence[Mapping[str, Any]],
    batches: Sequence[FinishedBatch],
    exponents: Mapping[str, float],
) -> Iterator[WhatIf]:
    """Predict the rates of each lookup that had rows in the last batches, with less and more memory.

    Args:
        described: the description of the pipeline by its latest job.
        turns: all turns of knobs, oldest first.
        batches: the last batches, oldest first.
        exponents: the exponent of the Zipf distribution of the looked-up keys, by relation; 0 if absent.
    """
    held = filed(described.fields)
    held |= {turn["name"]: turn["value"] for turn in turns if turn["refused"] is None}
    for lookup in described.lookups:
        found = _what_if(lookup, held, batches, exponents.get(lookup.relation, 0.0))
        if found is not None:
            yield found


def _what_if(
    lookup: LookupDescription, held: Mapping[str, Any], batches: Sequence[FinishedBatch], exponent: float
) -> WhatIf | None:
    rows = sample("lookup_ordered_rows_total", relation=lookup.relation)
    with_rows = [batch.samples for batch in batches if batch.samples.get(rows)]
    if not with_rows:
        return None
    summed, last = add(with_rows), with_rows[-1]

    def total(name: str) -> float:
        return summed.get(sample(name, relation=lookup.relation), 0.0)

    costs = _costs(last, lookup.relation)
    page_rows = held[f"{lookup.field}.page_rows"]
    tasks = last.get(sample("lookup_tasks", relation=lookup.relation), 0.0)
    relation_rows = round(last.get(sample("lookup_pages", relation=lookup.relation), 0.0) * page_rows)
    asked = (total("lookup_rows_total") - total("lookup_cached_rows_total")) / len(with_rows)
    if costs is None or tasks < 1 or relation_rows < 1:
        return None
    costs["wait"] = total("lookup_ordered_seconds_total") / total("lookup_ordered_rows_total")
    # A row that is answered at once was also ordered once.
    unit = JoinCosts(**costs | {"row": costs["row"] + costs["wait"]})
    memory = held[f"{lookup.field}.memory"]
    setup = Setup(
        relation_rows=relation_rows,
        page_rows=page_rows,
        row_bytes=1,  # the job does not report it, and a page takes little memory
        waiting_bytes=max(1, round(total("lookup_ordered_bytes_total") / total("lookup_ordered_rows_total"))),
        memory=max(1, round(memory / tasks)),
        exponent=exponent,
        batch_rows=max(1, round(asked / tasks)),
        scattered=True,
    )
    strategy = STRATEGIES[held[f"{lookup.field}.strategy"]]
    waiting_rows = total("lookup_pending_rows") / len(with_rows)
    together = at_once(unit, setup)
    # With the memory that waiting rows take now, which is less than they may take.
    taken = round(waiting_rows / tasks * setup.waiting_bytes) + setup.rows_on_page * setup.row_bytes
    waiting = with_waiting(unit, replace(setup, memory=taken)) if waiting_rows else []
    in_force = next((each for each in [*waiting, *together] if _strategy_of(each) is strategy), None)
    return WhatIf(
        relation=lookup.relation,
        knob=f"{lookup.field}.memory",
        memory=memory,
        waits=held[f"{lookup.field}.time_per_batch"] is not None,
        relation_rows=relation_rows,
        page_rows=page_rows,
        batch_rows=asked,
        exponent=exponent,
        costs=costs,
        strategy=strategy.name,
        reads=strategy.reads,
        paper=strategy.paper,
        waiting_rows=waiting_rows,
        in_force=None if in_force is None else _yield(in_force),
        auto=_yield(chosen_by_auto(waiting, together)),
        waiting=list(WAITING),
        by_memory=list(_by_memory(unit, setup, memory, together)),
    )


def _strategy_of(prediction: Prediction) -> Strategy:
    return STRATEGIES[prediction.strategy.removesuffix(AT_ONCE)]


def _yield(prediction: Prediction) -> Yield:
    return Yield(**vars(prediction), reads=_strategy_of(prediction).reads)


def _costs(samples: Samples, relation: str) -> dict[str, float] | None:
    """Return the costs of reads and rows in seconds; `None` if the job has not reported them all."""
    keys = {of: sample("lookup_cost_seconds", relation=relation, of=of) for of in _COSTS}
    return {of: samples[key] for of, key in keys.items()} if samples.keys() >= set(keys.values()) else None


def _by_memory(
    costs: JoinCosts, setup: Setup, memory: int, together: Sequence[Prediction]
) -> Iterator[ForMemory]:
    """Yield the rates with parts and multiples of `memory`.

    Memory changes only the rates of strategies that let rows wait.

    Args:
        costs: unit costs.
        setup: the setup of one task, with its share of the memory and of a batch.
        memory: bytes for the waiting rows of all tasks.
        together: predictions of the strategies that let no row wait.
    """
    for part in _PARTS:
        its = replace(setup, memory=max(1, round(setup.memory * part)))
        rates = {each.strategy: each.rate for each in [*with_waiting(costs, its), *together]}
        yield ForMemory(memory=max(1, round(memory * part)), rates=rates)
