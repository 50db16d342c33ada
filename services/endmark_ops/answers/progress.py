"""The progress of each stream and what holds it back, from the totals of the last batch."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from endmark_ops.answers.models import Holder, PendingPunctuations, StreamProgress
from endmark_ops.answers.totals import LabelledValue, by_name

_FROM_HERE_WHOLE = 10.0  # seconds; smaller numbers are written with a decimal
_WAITS_FOR = {
    "window": "for their last rows to leave the window",
    "closing": "for other streams to close their keys",
}


def stream_progress(totals: Mapping[str, float]) -> list[StreamProgress]:
    """Return the progress of each stream that the totals mention, sorted by the stream's name."""
    found = by_name(totals)
    behind = found.get("partition_behind_seconds", [])
    silent = found.get("silent_partitions", [])
    # Punctuations wait for a union, and time for partitions of its members.
    pending = [pair for pair in found.get("pending_punctuations", []) if pair[1]]
    streams = sorted({labels["stream"] for labels, _ in behind + silent + pending})
    return [_of_stream(stream, found) for stream in streams]


def _of_stream(stream: str, found: Mapping[str, list[LabelledValue]]) -> StreamProgress:
    def own(name: str) -> list[LabelledValue]:
        return [pair for pair in found.get(name, []) if pair[0].get("stream") == stream]

    def only(name: str) -> float | None:
        return next((value for _, value in own(name)), None)

    idle = sorted(int(labels["partition"]) for labels, _ in own("idle_partitions"))
    silent, behind = own("silent_partitions"), own("partition_behind_seconds")
    held_by = _holder(silent, behind)
    pending = [
        PendingPunctuations(waits_for=labels.get("waits_for", ""), punctuations=int(value))
        for labels, value in own("pending_punctuations")
        if value
    ]
    newest = _newest(only("progress_event_time_seconds"), only("progress_behind_seconds"))
    held = [_held_text(held_by, newest)] if silent or behind else []
    texts = [*held, *map(_idle_text, idle), *map(_pending_text, pending)]
    return StreamProgress(
        stream=stream,
        event_time=only("progress_event_time_seconds"),
        behind_seconds=only("progress_behind_seconds"),
        held_by=held_by,
        idle=idle,
        pending=pending,
        sentence=f"{stream}: {'; '.join(texts)}",
    )


def _holder(silent: list[LabelledValue], behind: list[LabelledValue]) -> Holder | None:
    """Return the partition that holds back progress; `None` if no partition is behind the others.

    This is a partition without a row, or else the partition that is furthest behind.
    """
    if silent:
        return Holder(partition=min(int(labels["partition"]) for labels, _ in silent), behind_seconds=None)
    if not behind:
        return None
    seconds, partition = max((value, -int(labels["partition"])) for labels, value in behind)
    return Holder(partition=-partition, behind_seconds=seconds) if seconds > 0 else None


def _newest(progress: float | None, behind: float | None) -> float | None:
    """Return the event time of the stream's newest row, in Unix seconds; `None` if it is not known."""
    return None if progress is None or behind is None else progress + behind


def _held_text(holder: Holder | None, newest: float | None) -> str:
    if holder is None:
        return "no partition holds its progress back"
    held = f"progress is held back by partition {holder.partition}"
    if holder.behind_seconds is None:
        return f"{held}, which has had no row yet"
    seconds = holder.behind_seconds
    written = f"{seconds:,.0f}" if seconds >= _FROM_HERE_WHOLE else f"{seconds:.1f}"
    since = "" if newest is None else f", which is at {moment(newest - seconds)}"
    return f"{held}{since}, {written} s behind the others"


def moment(event_time: float) -> str:
    """Return an event time as text; years that Python does not have are written as seconds."""
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=event_time)
    except OverflowError:
        return f"{event_time:.0f}"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _idle_text(partition: int) -> str:
    return f"partition {partition} is idle and not waited for"


def _pending_text(pending: PendingPunctuations) -> str:
    count = pending.punctuations
    return f"{count:,} {'punctuation waits' if count == 1 else 'punctuations wait'} " + _WAITS_FOR.get(
        pending.waits_for, "for what this version does not know"
    )
