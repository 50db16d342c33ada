"""The stages of MJoin that join rows on disk: memory-disk and clean-up (section 5.2)."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from endmark_papers.algorithms.contract import Counters
from endmark_papers.algorithms.mjoin_state import Bucket, SideState, Stored

Pair = tuple[Stored, Stored]


def memory_disk(
    younger: SideState, elder: SideState, spent: Callable[[Hashable], bool], counters: Counters
) -> list[Pair]:
    """Settle the debts of one side's rows in memory, and return the pairs.

    This also purges useless rows from the disk parts that it reads.

    Args:
        younger: the side whose rows in memory are in debt.
        elder: the side whose disk parts are read.
        spent: returns whether the younger side has processed all its rows of a key.
        counters: counts reads and probes.
    """
    pairs: list[Pair] = []
    for mine, theirs in zip(younger.buckets, elder.buckets, strict=True):
        debtors = mine.debtors()
        if not debtors:
            continue
        counters.page_reads += 1
        pairs += _owed(debtors, theirs, counters)
        younger.settle(debtors)
        awaited = {stored.row.key for stored in mine.debtors_on_disk()}
        elder.purge_disk(
            theirs,
            {
                stored
                for stored in theirs.disk
                if not stored.in_debt and spent(stored.row.key) and stored.row.key not in awaited
            },
        )
    return pairs


def clean_up(left: SideState, right: SideState, counters: Counters) -> list[Pair]:
    """Settle the debts of rows that were written to disk before they met all partners; return the pairs.

    Args:
        left: the state of the left side.
        right: the state of the right side.
        counters: counts reads and probes.
    """
    pairs: list[Pair] = []
    for one, other in zip(left.buckets, right.buckets, strict=True):
        lefts, rights = one.debtors_on_disk(), other.debtors_on_disk()
        if lefts or rights:
            counters.page_reads += bool(one.disk) + bool(other.disk)
        pairs += _owed(lefts, other, counters) + _owed(rights, one, counters)
        left.settle(lefts)
        right.settle(rights)
    return pairs


def _owed(debtors: list[Stored], bucket: Bucket, counters: Counters) -> list[Pair]:
    """Return each debtor with the rows of its key that were on disk when it came."""
    by_key: dict[Hashable, list[Stored]] = {}
    for stored in bucket.disk:
        by_key.setdefault(stored.row.key, []).append(stored)
    candidates = [(debtor, stored) for debtor in debtors for stored in by_key.get(debtor.row.key, ())]
    counters.probes += len(candidates)
    return [(debtor, stored) for debtor, stored in candidates if stored.written < debtor.came]
