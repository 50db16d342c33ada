"""The batches of a Spark checkpoint: the offsets that each one reads, and whether it is committed.

Spark writes a file with end offsets before it runs a batch, and a file of the same name in `commits` once the
batch is committed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from endmark.errors import ConfigError
from endmark.storage import entries, read_text, remove, text_if_any

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.storage import Location

_PARTITIONS_NAMED = 8
# The lines of a file by its log: a version, and then lines of JSON.
_LINES = {"offsets": 3, "commits": 2}
_VERSION = re.compile(r"v\d+")
_SHOWN = 40  # characters


def unfinished_batch(spark_checkpoint: Location) -> str | None:
    """Describe the batch that is planned but not committed, with its offsets; `None` if there is none."""
    planned = newest(spark_checkpoint / "offsets")
    if planned is None or planned == newest(spark_checkpoint / "commits"):
        return None
    ends = _offsets(spark_checkpoint, planned)
    starts = _offsets(spark_checkpoint, planned - 1) if planned else {}
    read = [
        f"{topic}/{partition} offsets {start} to {end - 1}"
        for topic, partitions in sorted(ends.items())
        for partition, end in sorted(partitions.items(), key=lambda each: int(each[0]))
        if end > (start := starts.get(topic, {}).get(partition, 0))
    ]
    if len(read) > _PARTITIONS_NAMED:
        read[_PARTITIONS_NAMED:] = [f"{len(read) - _PARTITIONS_NAMED} more partitions"]
    return f"batch {planned}" + (f" ({', '.join(read)})" if read else "")


def planned_ends(spark_checkpoint: Location) -> dict[str, dict[str, int]]:
    """Return the first offset that no batch was planned for, by topic and partition; empty before a batch."""
    planned = newest(spark_checkpoint / "offsets")
    return {} if planned is None else _offsets(spark_checkpoint, planned)


def committed_ends(spark_checkpoint: Location) -> dict[str, dict[str, int]]:
    """Return the first offset that no committed batch has read, by topic and partition.

    `planned_ends` has later ones if a batch is planned but not committed. It is empty before the first
    commit.
    """
    last = newest(spark_checkpoint / "commits")
    return {} if last is None else _offsets(spark_checkpoint, last)


def state_partitions(spark_checkpoint: Location, batch: int) -> int:
    """Return the number of partitions that state has since a batch was planned."""
    settings = json.loads(read_text(spark_checkpoint / "offsets", str(batch)).splitlines()[1])["conf"]
    return int(settings["spark.sql.shuffle.partitions"])


def begun_partitions(spark_checkpoint: Location) -> int | None:
    """Return the number of partitions that state is about to get; `None` if it keeps its number.

    Spark makes more partitions in a batch of its own, which a crash may leave without a commit.
    """
    planned, last = (newest(spark_checkpoint / log) for log in ("offsets", "commits"))
    if planned is None or last is None or planned == last:
        return None
    found = state_partitions(spark_checkpoint, planned)
    return None if found == state_partitions(spark_checkpoint, last) else found


def drop_torn(spark_checkpoint: Location, say: Callable[[str], None]) -> None:
    """Remove the plan and the commit of the newest batch if they are torn; refuse any other torn file.

    Spark writes these files completely or not at all. But a machine that loses its power may keep a half. A
    batch whose commit is torn is repeated, as if it had none. If its plan is torn and it has no commit, the
    batch is planned again. A table that has the batch already is refused later.

    Args:
        spark_checkpoint: Spark's part of a claimed checkpoint.
        say: called with a line for each file that is removed.

    Raises:
        ConfigError: a file is torn that cannot be missing; the text names it.
    """
    if (text := _torn(spark_checkpoint, "metadata")) is not None:
        raise _torn_error(spark_checkpoint / "metadata", text)
    for log, instead in (("commits", "is repeated"), ("offsets", "is planned again")):
        batch = newest(spark_checkpoint / log)
        if batch is None or (text := _torn(spark_checkpoint, f"{log}/{batch}")) is None:
            continue
        plan, commit = (newest(spark_checkpoint / each) for each in ("offsets", "commits"))
        may_be_missing = batch == plan if log == "commits" else commit is None or batch > commit
        if not may_be_missing:
            raise _torn_error(spark_checkpoint / log / str(batch), text)
        # Hadoop reads a file without a checksum as it is. So a crash between the two steps does no harm.
        remove(spark_checkpoint / log, [f".{batch}.crc"])
        remove(spark_checkpoint / log, [str(batch)])
        say(f"{spark_checkpoint / log / str(batch)} was torn; batch {batch} {instead}")


def _torn_error(file: Location, text: str) -> ConfigError:
    return ConfigError(
        f"{file} is torn: it ends with {text[-_SHOWN:]!r}; restore this file from a copy of the checkpoint, "
        "or begin a new checkpoint by `endmark migrate FILE`"
    )


def _torn(spark_checkpoint: Location, name: str) -> str | None:
    """Return the text of a file of which a part is missing; `None` if it is whole, or if there is none."""
    text = text_if_any(spark_checkpoint, name)
    if text is None or _is_whole(text.splitlines(), _LINES.get(name.partition("/")[0], 1)):
        return None
    return text


def _is_whole(lines: list[str], least: int) -> bool:
    """Return whether a file has enough lines, and each of them is a version or JSON."""
    known = (_VERSION.fullmatch(line) or _is_json(line) for line in lines)
    return len(lines) >= least and all(known)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def newest(log: Location) -> int | None:
    """Return the greatest number among the names of files in one of Spark's logs; `None` without files."""
    return max((int(name) for name in entries(log) if name.isdecimal()), default=None)


def _offsets(spark_checkpoint: Location, batch: int) -> dict[str, dict[str, int]]:
    """Return end offsets by topic and partition. The file has two lines of metadata, then one a source."""
    found: dict[str, dict[str, int]] = {}
    for line in (text_if_any(spark_checkpoint, f"offsets/{batch}") or "").splitlines()[2:]:
        found |= json.loads(line)
    return found
