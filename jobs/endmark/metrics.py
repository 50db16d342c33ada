"""The catalogue of metrics, which says what each metric counts and in which unit.

A sample is written as `name{label=value,...}`, with sorted labels. Names follow Prometheus: units are base
units, and counters end in `_total`. The job writes a set of samples for each batch, and the sidecar publishes
them as `endmark_<name>`. Labels never hold keys or values of the data, so the pipeline fixes the number of
series.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Metric(NamedTuple):
    """A metric of the catalogue.

    Args:
        unit: the unit of its values. Names of metrics show only seconds and bytes.
        doc: the meaning of its values.
    """

    unit: str
    doc: str


CATALOGUE: dict[str, Metric] = {
    "records_total": Metric("records", "Kafka records read, of any kind."),
    "gap_offsets_total": Metric(
        "offsets",
        "Offsets of a topic that the job was told to skip, since Kafka had dropped their records. It is the "
        "greatest possible number of lost records.",
    ),
    "rows_total": Metric("rows", "Well-formed data rows."),
    "punctuations_total": Metric("punctuations", "Well-formed punctuations."),
    "tombstones_total": Metric("records", "Tombstones, and deletions without effect, which are skipped."),
    "extra_rows_total": Metric(
        "rows", "Rows with fields that are not declared, which `extra: ignore` leaves out."
    ),
    "filtered_rows_total": Metric(
        "rows", "Rows that a row step has filtered or dropped as duplicates, by step."
    ),
    "filtered_results_total": Metric(
        "results", "Results of a join that a row step behind it has filtered, by step."
    ),
    "unpublished_records_total": Metric(
        "records",
        "Records that an output topic was not sent, since they are longer than its "
        "`max.message.bytes`, by topic.",
    ),
    "failed_results_total": Metric(
        "results", "Results of a join on which a row step behind it failed, so they are left out, by step."
    ),
    "step_rows_total": Metric(
        "rows",
        "Rows of a stream or step in front of the results for its tables and topic, and "
        "results that the row steps behind a join have left, by step.",
    ),
    "upserted_rows_total": Metric(
        "rows", "Rows that replace the earlier row of their key in a table, by step."
    ),
    "deleted_keys_total": Metric("keys", "Keys whose rows deletions remove from a table, by step."),
    "closing_rows_total": Metric(
        "rows", "Rows that met their stream's closing rule, each a punctuation as well."
    ),
    "closing_failed_rows_total": Metric(
        "rows", "Rows on which their stream's closing rule failed, which close nothing."
    ),
    "dead_letters_total": Metric("records", "Records that could not be read, by reason."),
    "control_records_total": Metric("records", "Records of the control topic, by what they ask for."),
    "violations_total": Metric(
        "rows",
        "Rows that their own stream had ruled out before, rows dated too far after Kafka's "
        "time, and rows with a null in the join key, by reason.",
    ),
    "partition_punctuations_total": Metric(
        "punctuations", "Punctuations of a partition, including closing rows."
    ),
    "partition_violations_total": Metric("rows", "Rows of a partition that its stream had ruled out."),
    "lookup_rows_total": Metric("rows", "Stream rows that entered the lookup join."),
    "lookup_missed_rows_total": Metric("rows", "Stream rows without a match in the relation."),
    "lookup_cached_rows_total": Metric("rows", "Stream rows that the cache of the relation answered."),
    "lookup_reads_total": Metric("reads", "Reads of the relation by kind: a `page`, or a `list` of keys."),
    "lookup_read_rows_total": Metric("rows", "Relation rows read."),
    "lookup_read_seconds_total": Metric("seconds", "Seconds spent reading the relation, summed over tasks."),
    "lookup_expected_seconds": Metric(
        "seconds",
        "Seconds that each strategy would take to answer all waiting rows, as `auto` expected "
        "before a batch's first read; the strategy `auto` is its own choice when no row may wait on.",
    ),
    "lookup_cost_seconds": Metric(
        "seconds",
        "Measured seconds of a part of a lookup, averaged over its tasks: the `seek` of a "
        "range of pages and a `page` in it, the `trip` for a list of keys and a `key` in it, a stream `row`.",
    ),
    "lookup_pages": Metric("pages", "Pages of the relation."),
    "lookup_tasks": Metric("tasks", "Tasks that look up, each with its share of `lookup.memory`."),
    "lookup_ordered_rows_total": Metric(
        "rows",
        "Stream rows that needed a read of the relation, counted once in each batch "
        "in which they came or had waited.",
    ),
    "lookup_ordered_bytes_total": Metric(
        "bytes", "Bytes in memory of the rows that needed a read of the relation."
    ),
    "lookup_ordered_seconds_total": Metric(
        "seconds",
        "Seconds spent on ordering rows that needed a read and on keeping rows "
        "that wait on, summed over tasks.",
    ),
    "lookup_pending_rows": Metric("rows", "Stream rows that wait for the relation."),
    "lookup_pending_bytes": Metric("bytes", "Bytes in memory of the rows that wait for the relation."),
    "lookup_memory_bytes": Metric(
        "bytes", "Bytes that waiting rows and rows held for them may take: `lookup.memory`."
    ),
    "lookup_parked_rows": Metric("rows", "Stream rows without a match that are looked up again later."),
    "lookup_held_rows": Metric(
        "rows", "Stream rows that are answered, but wait until other rows are answered."
    ),
    "lookup_held_bytes": Metric(
        "bytes", "Bytes in memory of the rows that are answered, but wait for others."
    ),
    "lookup_waiting_time_seconds": Metric(
        "seconds", "When the oldest pending, parked or held row came, in Unix seconds."
    ),
    "lookup_cache_age_seconds": Metric(
        "seconds", "Age of the oldest answer that any cache of the relation gives."
    ),
    "join_results_total": Metric(
        "results", "Rows the stream join put out; without a join, rows that passed the lookups."
    ),
    "join_null_key_rows_total": Metric(
        "results", "Results of a join without a key in the next stage, which are dropped."
    ),
    "join_failed_pairs_total": Metric(
        "pairs", "Pairs on which the condition of the join failed, so they are no results."
    ),
    "join_inserted_rows_total": Metric("rows", "Rows that entered join state."),
    "join_dropped_rows_total": Metric("rows", "Rows not stored because other streams had closed their key."),
    "join_invalidated_rows_total": Metric("rows", "State rows dropped because they left the window."),
    "join_purged_rows_total": Metric("rows", "State rows dropped because of a punctuation."),
    "join_unmatched_rows_total": Metric("rows", "Rows an outer join put out without a partner."),
    "join_spent_rows_total": Metric("rows", "Rows not kept any longer because a semi join had put them out."),
    "join_spilled_segments": Metric(
        "segments", "Segments that meet later rows only in a pause, or when memory is short."
    ),
    "join_spilled_bytes": Metric("bytes", "Bytes that spilled segments would take in memory."),
    "join_deferred_rows": Metric("rows", "Rows that spilled segments of other streams have not met yet."),
    "propagated_punctuations_total": Metric(
        "punctuations", "Output punctuations, by what completed them: closed or expired."
    ),
    "groups_closed_total": Metric("groups", "Groups of an aggregate put out, final."),
    "running_groups_total": Metric(
        "rows", "Rows put out for groups of an aggregate that a batch has changed or made final."
    ),
    "state_rows": Metric("rows", "Live rows in operator state."),
    "state_bytes": Metric("bytes", "Bytes of operator state, dead rows included."),
    "state_segments": Metric("segments", "Segments in operator state."),
    "pending_punctuations": Metric(
        "punctuations",
        "Punctuations not announced yet: they wait for the `window` of their last rows, "
        "or for a `closing` by other streams.",
    ),
    "closed_keys": Metric("keys", "Keys remembered as closed. A range of keys counts once."),
    "promised_keys": Metric(
        "keys", "Keys that some partitions have promised by name, but not yet all that must."
    ),
    "progress_event_time_seconds": Metric(
        "seconds", "Event time before which no row comes any more, in Unix seconds."
    ),
    "progress_behind_seconds": Metric(
        "seconds", "How far progress is behind the newest row of the stream, lateness included."
    ),
    "partition_behind_seconds": Metric(
        "seconds", "How far a partition's newest row is behind its stream's newest row."
    ),
    "silent_partitions": Metric(
        "partitions", "1 for each partition without a row or heartbeat so far, which holds progress back."
    ),
    "idle_partitions": Metric(
        "partitions", "1 for each partition that is silent for so long that it does not hold progress back."
    ),
    "profile_seconds_total": Metric(
        "seconds",
        "Seconds that Python spent in tasks, summed over tasks, by phase: `read` waits for "
        "Kafka's records, `shuffle` for rows of other tasks, `hand_over` for Spark to take rows; `files` "
        "writes those of tables; `lookup` includes reading pages, and `purge` all of a join but its probes. "
        "Spark's own work (scheduling, shuffle, state commits) is not included.",
    ),
    "compute_seconds": Metric(
        "seconds", "Wall-clock seconds of the last batch's tasks, which also write the files of tables."
    ),
    "write_seconds": Metric(
        "seconds", "Wall-clock seconds of the last batch's commits by table; they follow one another."
    ),
    "publish_seconds": Metric(
        "seconds", "Wall-clock seconds of the last batch's records for the output topic."
    ),
    "state_commit_seconds": Metric(
        "seconds", "Seconds Spark's state store took to commit the last batch, summed over tasks."
    ),
    "batch_seconds": Metric(
        "seconds", "Wall-clock seconds of the last batch, by phase; `total` covers all of it."
    ),
    "latency_records_total": Metric(
        "records",
        "Records of a stream by latency, which is the time from Kafka's timestamp to the "
        "commit of the batch that read the record. It is at most `up_to` seconds, and above the next smaller "
        "bound.",
    ),
    "latency_seconds_total": Metric("seconds", "Sum of the latencies of a stream's records."),
    "batch_latency_seconds": Metric(
        "seconds",
        "Latency that a share of a stream's records in the last batch does not exceed, by `percentile`.",
    ),
    "batch_due_time_seconds": Metric(
        "seconds", "When a batch is due even without a record, because rows wait for it, in Unix seconds."
    ),
}

_SAMPLE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})?")

Samples = dict[str, float]


def sample(name: str, **labels: str) -> str:
    """Return the key of a sample, such as `state_rows{operator=join,stream=bids}`.

    Raises:
        KeyError: the catalogue has no such metric.

    >>> sample("state_rows", stream="bids", operator="join")
    'state_rows{operator=join,stream=bids}'
    """
    if name not in CATALOGUE:
        raise KeyError(f"{name} is not in the catalogue of metrics")
    inner = ",".join(f"{label}={labels[label]}" for label in sorted(labels))
    return f"{name}{{{inner}}}" if inner else name


def parse(key: str) -> tuple[str, dict[str, str]]:
    """Split a sample's key into name and labels.

    Raises:
        ValueError: the text is not the key of a sample.

    >>> parse("state_rows{operator=join,stream=bids}")
    ('state_rows', {'operator': 'join', 'stream': 'bids'})
    """
    found = _SAMPLE.fullmatch(key)
    if not found:
        raise ValueError(f"not a metric sample: {key!r}")
    pairs = (pair.partition("=")[::2] for pair in (found["labels"] or "").split(",") if pair)
    return found["name"], dict(pairs)


def total(samples: Mapping[str, float], name: str, **labels: str) -> float:
    """Return the sum of a metric over its series, 0 if there are none.

    Args:
        samples: the samples.
        name: the name of the metric.
        labels: labels that the series have, and maybe others.

    >>> total({"rows_total{stream=bids}": 2.0, "rows_total{stream=items}": 1.0, "keys": 7}, "rows_total")
    3.0
    """
    found = ((*parse(key), value) for key, value in samples.items())
    return sum(value for metric, own, value in found if metric == name and labels.items() <= own.items())


def is_counter(key: str) -> bool:
    return parse(key)[0].endswith("_total")


def add(parts: Iterable[Mapping[str, float]]) -> Samples:
    """Sum the samples of several tasks. Gauges add up, too, since every task reports its own share."""
    total: Samples = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    return total


def accumulate(before: Mapping[str, float], batch: Mapping[str, float]) -> Samples:
    """Return the totals after a batch: counters grow, and gauges are those of the batch."""
    totals = {key: value for key, value in before.items() if is_counter(key)}
    for key, value in batch.items():
        totals[key] = totals.get(key, 0.0) + value if is_counter(key) else value
    return totals
