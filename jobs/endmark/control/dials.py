"""The table of knobs, with texts for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Knob:
    """A knob: a field that may be turned while the job runs, with its values and its effect in words."""

    kind: Literal["choice", "duration", "size", "number"]
    values: str
    effect: str


# By their names in a file that has one lookup; `*` is any name.
KNOBS = {
    "lookup.strategy": Knob(
        "choice",
        "auto takes the cheapest by measured costs",
        "The way to read the relation: by pages, by lists of keys, or all of it.",
    ),
    "lookup.page_rows": Knob(
        "number",
        "1 to 1000000",
        "Rows of a page. Each Python process makes its page directory anew, by one short read for each page.",
    ),
    "lookup.time_per_batch": Knob(
        "duration",
        "such as 500ms or 2s, up to 36500d; null: until all rows are answered",
        "The time for which a full batch reads the relation. Unanswered rows wait for the next batch.",
    ),
    "lookup.memory": Knob(
        "size",
        "such as 64MB, up to 1000000GB; a number is bytes",
        "The memory of waiting rows, in all buckets. A batch that would leave more reads on.",
    ),
    "lookup.cache.memory": Knob(
        "size",
        "such as 64MB, up to 1000000GB; a number is bytes",
        "The memory of cached rows in each Python process. Less of it drops rows that are rarely asked for.",
    ),
    "lookup.cache.lifetime": Knob(
        "duration",
        "such as 30s or 5m, up to 36500d",
        "The time for which a cached row is used, and so the greatest age of the relation's rows in results.",
    ),
    "lookup.cache.absent_lifetime": Knob(
        "duration",
        "such as 10s, up to 36500d",
        "The time for which a key that the relation did not have counts as absent.",
    ),
    "join.purge_every": Knob(
        "number",
        "1 to 1000000; presets that purge with each punctuation take 1 alone",
        "The punctuations of a stream that wait until state is purged. More of them: less work, more state.",
    ),
    "join.memory": Knob(
        "size",
        "such as 256MB, up to 1000000GB; null: any number; presets that do not spill take null alone",
        "The memory of both streams' rows, in all buckets. Rows beyond it meet later rows in a pause.",
    ),
    "batch.records": Knob(
        "number",
        "1 to 1000000000",
        "The most records that a batch reads. The job starts its query again between two batches.",
    ),
    "batch.every": Knob(
        "duration",
        "such as 500ms or 10s, up to 1d",
        "The least time between the starts of two batches. The job starts its query again between them.",
    ),
    "streams.*.event_time.idle": Knob(
        "duration",
        "such as 30s, up to 36500d, of a stream that has it in the file",
        "The time without records after which a partition is not waited for, while others have records.",
    ),
}
# These change results, so `verify` must find each of their values in the stream.
DECIDING = ("streams.*.event_time.idle",)
