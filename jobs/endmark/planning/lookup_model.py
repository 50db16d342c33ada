"""The cost model of the lookup: HYBRIDJOIN's equations (UoA-SE-2010-2, section 5), for each strategy.

The unit costs are measured by `calibration`. `Strategy` says what is read, and `Setup` says how many rows
wait and which keys they ask for. This module computes the costs of that.

A read of a page takes a + v_P B seconds, where v_P is its size in bytes and B the seconds for a byte until
its rows are matched. A stream row costs c_S seconds in all. If a page answers w rows, the service rate is

    mu = w / (a + v_P B + w c_S).

Rows that wait cost more, which the paper leaves out. Each is stored once. Each batch of b rows orders all H
waiting rows again, so a row is ordered H / b times before it is answered. Reading ahead hides a part of all
these costs.

`page_model` gives w. The paper has w = 1.36 H D / R, for pages of D rows out of R. If pages have many rows,
then w = 2 H D / R. In that case, mu is largest for pages of v_P* = (sqrt(a^2 + a B M) - a) / B bytes, where M
is the memory in bytes. Skew makes v_P* smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from endmark.operators.lookup.auto import BY_KEY
from endmark.operators.lookup.reads import PAGES_AT_ONCE
from endmark.operators.lookup.strategies import STRATEGIES, oldest_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.operators.lookup.costs import JoinCosts
    from endmark.operators.lookup.strategies import PageRead
    from endmark.operators.lookup.workload import Setup

AT_ONCE = " at once"
"""The end of a prediction's name, if its strategy is also predicted with waiting rows."""

WAITING = tuple(each.name for each in STRATEGIES.values() if each.waiting is not None)
"""The names of the predictions in which rows wait in memory for later batches."""


@dataclass(frozen=True)
class Prediction:
    """A predicted yield.

    Args:
        strategy: the strategy's name. Some strategies are predicted both with and without rows that wait for
            later batches; the name of the latter ends with ` at once`.
        rate: stream rows per second.
        rows_per_read: stream rows that one read (page, key, list of keys, scan) answers.
        read_seconds: seconds of one read, including all work on its rows.
    """

    strategy: str
    rate: float
    rows_per_read: float
    read_seconds: float


def predict(costs: JoinCosts, setup: Setup) -> list[Prediction]:
    """Predict every strategy that has costs, the fastest first.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
    """
    return sorted([*with_waiting(costs, setup), *at_once(costs, setup)], key=lambda each: -each.rate)


def with_waiting(costs: JoinCosts, setup: Setup) -> list[Prediction]:
    """Predict the strategies whose rows wait in memory for later batches.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
    """
    return [
        _page_by_page(each.name, each.waiting(setup), costs, setup)
        for each in STRATEGIES.values()
        if each.waiting is not None
    ]


def at_once(costs: JoinCosts, setup: Setup) -> list[Prediction]:
    """Predict the strategies for batches that answer all of their rows. The memory does not matter to them.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
    """
    asked, found = setup.asked, []
    for each in STRATEGIES.values():
        if each.answering is not None:
            reads = each.answering(costs, asked)
            name = each.name if each.waiting is None else each.name + AT_ONCE
            rows = setup.batch_rows / reads.number
            seconds = (reads.seconds + reads.plans * costs.loop) / reads.number + rows * costs.row
            found.append(Prediction(name, rows / seconds, rows, seconds))
    return found


def _page_by_page(name: str, read: PageRead, costs: JoinCosts, setup: Setup) -> Prediction:
    """Predict a strategy that reads a page at a time and answers rows that have waited."""
    waits = setup.waiting_rows / setup.batch_rows * costs.wait
    seconds = read.seeks * costs.seek + costs.page + costs.loop / PAGES_AT_ONCE
    seconds += read.rows * (costs.row + costs.store + waits)
    return Prediction(name, read.rows / seconds, read.rows, seconds)


def chosen_by_auto(waiting: Sequence[Prediction], at_once: Sequence[Prediction]) -> Prediction:
    """Return the prediction of the reads that `auto` would choose.

    Where rows may wait, `auto` reads what answers them at once only if that is `BY_KEY` times as fast.

    Args:
        waiting: predictions by which rows wait; none if no row may.
        at_once: predictions by which each batch answers all of its rows.
    """
    best = max(at_once, key=lambda each: each.rate)
    patient = max(waiting, key=lambda each: each.rate, default=None)
    return best if patient is None or best.rate > BY_KEY * patient.rate else patient


def hybrid(costs: JoinCosts, setup: Setup) -> Prediction:
    """Predict `hybrid` with rows that wait.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
    """
    return _page_by_page("hybrid", oldest_page(setup), costs, setup)


def with_pages(costs: JoinCosts, setup: Setup, page_rows: int) -> tuple[JoinCosts, Setup]:
    """Return the costs and the setup for pages of another size. The cost of a page scales with its rows.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
        page_rows: rows of a page.
    """
    other = replace(setup, page_rows=page_rows)
    return replace(costs, page=costs.page / setup.rows_on_page * other.rows_on_page), other


def paper_page_rows(costs: JoinCosts, setup: Setup) -> float:
    """Return v_P* in rows, the best page size for keys without skew if one page is read at a time.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
    """
    row = costs.page / setup.rows_on_page
    root = np.sqrt(costs.seek**2 + costs.seek * row * setup.memory / setup.row_bytes)
    return float((root - costs.seek) / row)


def best_page_rows(costs: JoinCosts, setup: Setup) -> int:
    """Return the best page size in rows for keys without skew, among sizes around v_P*.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
    """
    even, paper = replace(setup, exponent=0.0), paper_page_rows(costs, setup)
    sizes = [max(1, int(paper * 2.0**power)) for power in range(-6, 3)]
    return max(sizes, key=lambda size: hybrid(*with_pages(costs, even, size)).rate)


def what_if(costs: JoinCosts, setup: Setup, memories: Sequence[int]) -> dict[int, Prediction]:
    """Predict `hybrid` for several sizes of memory, each with its best page size.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
        memories: sizes of memory in bytes.

    Returns:
        The prediction for each size of memory.
    """
    setups = [replace(setup, memory=memory) for memory in memories]
    return {each.memory: hybrid(*with_pages(costs, each, best_page_rows(costs, each))) for each in setups}
