"""Columns of streams that become optional (`long` to `long?`) under a checkpoint, from its next batch on.

State and tables have the same columns before and after. A checkpoint takes the change if all that it has done
is what the new file would have done, so that `verify` still judges the whole history by one file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.driver.failure import unfinished_batch
from endmark.pipeline.tables import RESERVED
from endmark.storage import delta_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from endmark.storage import Location

_DEAD_LETTERS = RESERVED[0]


@dataclass(frozen=True)
class OptionalColumns:
    """The columns that a file makes optional.

    Args:
        taken: the present types of those that the checkpoint takes, by stream and column.
        refusals: for each other one, why the checkpoint cannot take it.
    """

    taken: Mapping[tuple[str, str], str]
    refusals: tuple[str, ...]

    def applied(self, pinned: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of the checkpoint with the columns that it takes."""
        streams = {name: {**stream, "columns": dict(stream["columns"])} for name, stream in _streams(pinned)}
        for (stream, column), kind in self.taken.items():
            streams[stream]["columns"][column] = kind
        return {**pinned, "streams": streams}


def optional_columns(
    pinned: Mapping[str, Any], settings: Mapping[str, Any], checkpoint: Path, warehouse: Location
) -> OptionalColumns:
    """Find the columns that are optional in the present file alone.

    Args:
        pinned: the settings of the checkpoint.
        settings: the settings of the present file.
        checkpoint: the directory of the checkpoint, which is locked.
        warehouse: the directory of its tables.
    """
    taken, refusals = {}, []
    for stream, column, kind in _optional(pinned, settings):
        declared = settings["streams"][stream]
        if (why := _refusal(column, stream, declared, settings["steps"], checkpoint, warehouse)) is None:
            taken[stream, column] = kind
        else:
            refusals.append(
                f"streams.{stream}.columns.{column} becomes optional by a new checkpoint alone: {why}"
            )
    return OptionalColumns(taken, tuple(refusals))


def _streams(settings: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from settings["streams"].items()


def _optional(pinned: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for stream, declared in _streams(settings):
        before = pinned["streams"].get(stream, {"columns": {}})["columns"]
        for column, kind in declared["columns"].items():
            if kind.endswith("?") and before.get(column) == kind.removesuffix("?"):
                yield stream, column, kind


def _refusal(
    column: str,
    stream: str,
    declared: Mapping[str, Any],
    steps: Mapping[str, Any],
    checkpoint: Path,
    warehouse: Location,
) -> str | None:
    if declared["format"] != "json":
        return f"earlier rows in {declared['format']} could be others now"
    if re.search(rf"\b({re.escape(stream)}_)?{re.escape(column)}\b", json.dumps(steps)):
        return "a step names it, and may treat rows without it in another way"
    if (batch := unfinished_batch(checkpoint / "spark")) is not None:
        return f"{batch} is unfinished; start the job once with the file as it was, and let it end its batch"
    if lacking := _lacking(declared["topic"], warehouse / _DEAD_LETTERS):
        return f"{lacking} records of topic {declared['topic']} that lacked a value are dead letters"
    return None


def _lacking(topic: str, dead_letters: Location) -> int:
    """Return the number of dead letters that a missing value has made."""
    if (table := delta_table(dead_letters)) is None:
        return 0
    found = table.to_pyarrow_dataset().to_table(columns=["topic", "reason"]).to_pylist()
    return sum(row == {"topic": topic, "reason": "missing_field"} for row in found)
