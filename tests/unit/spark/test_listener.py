"""Figures of a batch are read from Spark's progress as JSON."""

from __future__ import annotations

from endmark.metrics import sample
from endmark.spark.listener import read, samples

PROGRESS = {
    "batchId": 3,
    "durationMs": {"triggerExecution": 350, "addBatch": 250, "getBatch": 1},
    "stateOperators": [{"commitTimeMs": 20}, {"commitTimeMs": 5}],
    "sources": [{"endOffset": {"bids": {"0": 7, "1": 9}, "items": {"0": 2}}}],
}


def test_phases_are_seconds_and_others_are_left_out() -> None:
    """Commits of several stateful operators are added up."""
    assert samples(PROGRESS) == {
        sample("batch_seconds", phase="total"): 0.35,
        sample("batch_seconds", phase="compute_and_write"): 0.25,
        sample("state_commit_seconds"): 0.025,
    }


def test_end_offsets_are_by_topic_and_partition() -> None:
    assert read(PROGRESS) == {"bids": {"0": 7, "1": 9}, "items": {"0": 2}}
