"""The unit of each metric in the catalogue, for people; names alone carry only seconds and bytes."""

from __future__ import annotations

UNITS: dict[str, str] = {
    "records_total": "records",
    "rows_total": "rows",
    "punctuations_total": "punctuations",
    "dead_letters_total": "records",
    "violations_total": "rows",
    "lookup_rows_total": "rows",
    "lookup_missed_rows_total": "rows",
    "lookup_page_reads_total": "pages",
    "lookup_page_rows_total": "rows",
    "lookup_read_seconds_total": "seconds",
    "join_results_total": "results",
    "join_inserted_rows_total": "rows",
    "join_dropped_rows_total": "rows",
    "join_invalidated_rows_total": "rows",
    "join_purged_rows_total": "rows",
    "join_unmatched_rows_total": "rows",
    "join_spent_rows_total": "rows",
    "propagated_punctuations_total": "punctuations",
    "groups_closed_total": "groups",
    "state_rows": "rows",
    "state_bytes": "bytes",
    "state_segments": "segments",
    "pending_punctuations": "punctuations",
    "closed_keys": "keys",
    "batch_seconds": "seconds",
    "lag_records": "records",
}
