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
        "auto takes the cheapest by what each has cost",
        "How the relation is read: by pages, by lists of keys or all of it.",
    ),
    "lookup.page_rows": Knob(
        "number",
        "1 to 1000000",
        "Rows of a page: each Python process makes its page directory anew, by a short read for each page.",
    ),
    "lookup.time_per_batch": Knob(
        "duration",
        "such as 500ms or 2s, up to 36500d; null: until all is answered",
        "How long a full batch reads the relation; rows that it leaves wait for the next.",
    ),
    "lookup.memory": Knob(
        "size",
        "such as 64MB, up to 1000000GB; a number is bytes",
        "What rows may take that a batch leaves waiting, in all buckets; beyond it, the batch reads on.",
    ),
    "lookup.cache.memory": Knob(
        "size",
        "such as 64MB, up to 1000000GB; a number is bytes",
        "What rows of the relation at hand may take in each Python process; less lets go of the rarest.",
    ),
    "lookup.cache.lifetime": Knob(
        "duration",
        "such as 30s or 5m, up to 36500d",
        "How long what the relation had is believed, and so how old it may be in results.",
    ),
    "lookup.cache.absent_lifetime": Knob(
        "duration",
        "such as 10s, up to 36500d",
        "How long the relation is believed not to have a key that it did not have.",
    ),
    "join.purge_every": Knob(
        "number",
        "1 to 1000000; presets that purge with each punctuation take 1 alone",
        "How many punctuations of a stream make a purge: more of them are less work and more state.",
    ),
    "join.memory": Knob(
        "size",
        "such as 256MB, up to 1000000GB; null: any number; presets that do not spill take null alone",
        "What rows of both streams may take, in all buckets; those beyond it meet later rows in a pause.",
    ),
    "batch.records": Knob(
        "number",
        "1 to 1000000000",
        "How many records a batch reads at most; the job starts its query again, between two batches.",
    ),
    "batch.every": Knob(
        "duration",
        "such as 500ms or 10s, up to 1d",
        "The least time from the start of a batch to the next; the job starts its query again, likewise.",
    ),
    "streams.*.event_time.idle": Knob(
        "duration",
        "such as 30s, up to 36500d, of a stream that has it in the file",
        "How long a partition that has no records, while others have some, is waited for.",
    ),
}
# These change results, so `verify` must find each of their values in the stream.
DECIDING = ("streams.*.event_time.idle",)
