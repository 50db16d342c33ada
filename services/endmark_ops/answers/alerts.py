"""Alerts of a pipeline in words, by its last batches alone.

They are for a person who looks at the list of pipelines. The thresholds are those of infra/alerts.yml, whose
rules also say for how long something must last, and which Prometheus sends to somebody.
"""

from __future__ import annotations

from collections.abc import Sequence

from endmark.control.ops_database.batches import FinishedBatch
from endmark.metrics import total
from endmark_ops.answers import health
from endmark_ops.answers.totals import by_name
from endmark_ops.readers.source import Snapshot

_BEHIND_SECONDS = 600.0
_BAD_SHARE = 0.001
_FULL_SHARE = 0.9


def alerts(snapshot: Snapshot, last: Sequence[FinishedBatch], stale_seconds: float) -> list[str]:
    """Return a sentence for each thing that a person should look at, the most urgent first.

    Args:
        snapshot: the pipeline's newest run and batch.
        last: the last batches, oldest first, over which bad records count.
        stale_seconds: age of the last batch, in seconds, above which a running job counts as stale.
    """
    state = health.state(snapshot, stale_seconds)
    found = {
        "failed": ["the job has failed"],
        "lost": ["the job is gone without a word"],
        "stale": [f"no batch for more than {health.stale_after(snapshot, stale_seconds):g} s"],
    }.get(state, [])
    totals = {} if snapshot.batch is None else snapshot.batch.totals
    return [*found, *_of_progress(totals), *_of_memory(totals), *_of_bad_records(last)]


def _of_progress(totals: dict[str, float]) -> list[str]:
    named = by_name(totals)
    silent = [
        f"partition {labels['partition']} of {labels['stream']} has never had a row or heartbeat"
        for labels, value in named.get("silent_partitions", [])
        if value > 0
    ]
    # `progress_behind_seconds` has the lateness of a stream, too, which may be hours.
    furthest: dict[str, float] = {}
    for labels, value in named.get("partition_behind_seconds", []):
        furthest[labels["stream"]] = max(value, furthest.get(labels["stream"], 0.0))
    behind = [
        f"{stream} is held back {value:,.0f} s behind its newest row"
        for stream, value in furthest.items()
        if value > _BEHIND_SECONDS
    ]
    return silent + behind


def _of_memory(totals: dict[str, float]) -> list[str]:
    waiting = total(totals, "lookup_pending_bytes") + total(totals, "lookup_held_bytes")
    full = waiting > _FULL_SHARE * (total(totals, "lookup_memory_bytes") or float("inf"))
    spills = total(totals, "join_spilled_bytes") > 0
    found = ["rows that wait for a lookup take nine tenths of their memory"] if full else []
    return [*found, "the join's rows exceed its memory"] if spills else found


def _of_bad_records(last: Sequence[FinishedBatch]) -> list[str]:
    def share(bad: str, of: str) -> float:
        whole = sum(total(batch.samples, of) for batch in last)
        return sum(total(batch.samples, bad) for batch in last) / whole if whole else 0.0

    found = []
    if share("dead_letters_total", "records_total") > _BAD_SHARE:
        found.append("more than one record in a thousand is a dead letter")
    if share("violations_total", "rows_total") > _BAD_SHARE:
        found.append("more than one row in a thousand breaks a promise of its stream")
    return found
