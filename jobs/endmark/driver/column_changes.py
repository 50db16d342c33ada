"""Changes of a stream's columns that a checkpoint takes from its next batch on.

A column may become optional (`long` to `long?`), and an optional column may be new. The checkpoint takes such
a change if all that it has done is what the new file would have done. Only one thing differs: a record from
before the change has no value of a new column, whatever its members are. So the checkpoint keeps the first
offsets with the column, by which `verify` still judges the whole history by one file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.driver.planned_batches import planned_ends, unfinished_batch
from endmark.pipeline.tables import RESERVED
from endmark.storage import delta_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from endmark.storage import Location

_DEAD_LETTERS = RESERVED[0]
_LACKING = ("missing_field", "bad_key", "bad_header", "bad_timestamp")


@dataclass(frozen=True)
class ColumnChanges:
    """The columns of streams whose type differs from the checkpoint's only by `?`, or that are new.

    Args:
        taken: the present types of those that the checkpoint takes, by stream and column.
        parts: the parts of a record that new ones of these are taken from, as far as the file names any.
        first_offsets: the first offset of each partition at which a new column is read, by stream and column.
            A partition that is not named is read with the column from its start on.
        refusals: for each other one, why the checkpoint cannot take it; or why it takes none yet.
    """

    taken: Mapping[tuple[str, str], str]
    parts: Mapping[tuple[str, str], str]
    first_offsets: Mapping[tuple[str, str], Mapping[str, int]]
    refusals: tuple[str, ...]

    def applied(self, pinned: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the checkpoint with the columns that it takes."""
        streams = {
            name: {**stream, "columns": dict(stream["columns"]), "taken_from": dict(stream["taken_from"])}
            for name, stream in _streams(pinned)
        }
        for (stream, column), kind in self.taken.items():
            streams[stream]["columns"][column] = kind
        for (stream, column), part in self.parts.items():
            streams[stream]["taken_from"][column] = part
        return {**pinned, "streams": streams}


@dataclass(frozen=True)
class _Change:
    """A column of a stream in the present file, and its type in the checkpoint; `None` for a new one."""

    stream: str
    column: str
    kind: str
    before: str | None


def column_changes(
    pinned: Mapping[str, Any], settings: Mapping[str, Any], checkpoint: Location, warehouse: Location
) -> ColumnChanges:
    """Find the columns that are optional or there in the present file alone.

    Args:
        pinned: the settings of the checkpoint.
        settings: the settings of the present file.
        checkpoint: the directory of the checkpoint, which is locked.
        warehouse: the directory of its tables.
    """
    taken, parts, first_offsets, refusals = {}, {}, {}, []
    unfinished, is_held = unfinished_batch(checkpoint / "spark"), False
    for change in _changes(pinned, settings):
        place = change.stream, change.column
        declared = settings["streams"][change.stream]
        if (why := _refusal(change, declared, settings["steps"], warehouse)) is None:
            if unfinished is not None:
                is_held = True
                continue
            taken[place] = change.kind
            if change.before is None:
                if (part := declared["taken_from"].get(change.column)) is not None:
                    parts[place] = part
                first_offsets[place] = planned_ends(checkpoint / "spark").get(declared["topic"], {})
        else:
            becomes = "is added" if change.before is None else "becomes optional"
            refusals.append(
                f"streams.{change.stream}.columns.{change.column} {becomes} by a new checkpoint alone: {why}"
            )
    if is_held:
        refusals.append(
            f"columns change between two batches, and {unfinished} is unfinished: run the job once with the "
            "file as it was and `--available-now`, which ends its batches, and then with this file"
        )
    return ColumnChanges(taken, parts, first_offsets, tuple(refusals))


def _streams(settings: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from settings["streams"].items()


def _changes(pinned: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[_Change]:
    known = dict(_streams(pinned))
    for stream, declared in _streams(settings):
        if stream in known:
            columns = known[stream]["columns"]
            for column, kind in declared["columns"].items():
                before = columns.get(column)
                if before is None or (kind.endswith("?") and before == kind.removesuffix("?")):
                    yield _Change(stream, column, kind, before)


def _refusal(
    change: _Change,
    declared: Mapping[str, Any],
    steps: Mapping[str, Any],
    warehouse: Location,
) -> str | None:
    if not change.kind.endswith("?"):
        return f"rows before it have no value; make it optional ({change.kind}?)"
    if change.before is not None and declared["format"] != "json":
        return f"earlier rows in {declared['format']} could be others now"
    if _is_named(change, steps):
        return "a step names it, and may treat rows without it in another way"
    if change.before is not None and (lacking := _lacking(declared["topic"], warehouse / _DEAD_LETTERS)):
        return f"{lacking} records of topic {declared['topic']} that lacked a value are dead letters"
    return None


def _is_named(change: _Change, steps: Mapping[str, Any]) -> bool:
    """Return whether a step may name a column, by itself or behind its stream or a union with the stream."""
    inputs = [change.stream, *(name for name, step in steps.items() if "union" in step)]
    prefixes = "|".join(map(re.escape, inputs))
    return bool(re.search(rf"\b(({prefixes})_)?{re.escape(change.column)}\b", json.dumps(steps)))


def _lacking(topic: str, dead_letters: Location) -> int:
    """Return the number of dead letters that a missing value has made, or may have made."""
    if (table := delta_table(dead_letters)) is None:
        return 0
    found = table.to_pyarrow_dataset().to_table(columns=["topic", "reason"]).to_pylist()
    return sum(row["topic"] == topic and row["reason"] in _LACKING for row in found)
