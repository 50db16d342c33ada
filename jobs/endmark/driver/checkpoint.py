"""The checkpoint of a job, which belongs to one driver at a time and to one set of tables."""

from __future__ import annotations

import fcntl
import json
import shutil
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from endmark.driver.column_changes import column_changes
from endmark.driver.planned_batches import newest
from endmark.driver.settings import changed
from endmark.errors import ConfigError, MissingPartError
from endmark.kafka.gaps import Gap
from endmark.storage import entries, remove, text_if_any, write_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from endmark.engine.earlier_buckets import EarlierBuckets
    from endmark.storage import Location

# The format of a checkpoint and of the tables that it writes: settings, offsets, state and rows. A version of
# endmark has a higher number than the one before if it cannot read the files of that one.
FORMAT = 1

# Files of a checkpoint. Its directory `spark` is Spark's.
_FORMAT = "endmark/format.json"
_APP_ID = "endmark/app_id"
_TABLES = "endmark/tables.json"
_SETTINGS = "endmark/settings.json"
_FIRST_OFFSETS = "endmark/first_offsets.json"
_START_OFFSETS = "endmark/start_offsets.json"
_TOPICS = "endmark/topics.json"
_GAPS = "endmark/gaps.json"
_RESCALING = "endmark/rescaling.json"
_OPERATORS = "endmark/operators.json"
_COPIES = "endmark/earlier_buckets"


@contextmanager
def claimed(checkpoint: Location) -> Iterator[str]:
    """Lock the checkpoint for this process; yield its app id, which is made with the checkpoint.

    Delta skips a batch whose (app id, batch id) it has seen. Batch ids restart at 0 with a new checkpoint, so
    an app id must not outlive its checkpoint. It is therefore a file of the checkpoint.

    An object store has no locks. There, `endmark.control.ops_database.runs.Runs.start`
    admits one job.

    Raises:
        MissingPartError: another process holds the checkpoint, or the object store is away.
        ConfigError: the checkpoint has the format of another version, or has lost its app id.
    """
    if not isinstance(checkpoint, Path):
        yield _app_id(checkpoint)
        return
    directory = checkpoint / "endmark"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MissingPartError(
                f"checkpoint {checkpoint} is in use by another job; stop that one, or use another checkpoint"
            ) from error
        yield _app_id(checkpoint)


def _app_id(checkpoint: Location) -> str:
    """Return the app id of a claimed checkpoint, and make it if there is none."""
    if (found := app_id_of(checkpoint)) is not None:
        return found
    # A job writes its tables' ids behind the app id, and a migration moves them away before it.
    if text_if_any(checkpoint, _TABLES) is not None:
        raise ConfigError(
            f"{checkpoint / _APP_ID}: the file is missing, and without it the tables would get their newest "
            "batches again; restore it from a copy, or start with a new checkpoint and an empty warehouse"
        )
    made = f"endmark-{uuid.uuid4()}"
    written = {"format": FORMAT, "endmark": version("endmark")}
    write_text(checkpoint, _FORMAT, json.dumps(written))
    write_text(checkpoint, _APP_ID, made)
    return made


def app_id_of(checkpoint: Location) -> str | None:
    """Return the app id of a checkpoint that may be in use; `None` if no job has claimed it.

    Raises:
        ConfigError: the checkpoint has the format of another version.
    """
    app_id = text_if_any(checkpoint, _APP_ID)
    _require_format(checkpoint, is_claimed=app_id is not None)
    return app_id


def _require_format(checkpoint: Location, *, is_claimed: bool) -> None:
    """Refuse a checkpoint that this version cannot read.

    Args:
        checkpoint: the directory of the checkpoint.
        is_claimed: whether a job has made the checkpoint, which writes the format first.
    """
    match stored_json(checkpoint, _FORMAT):
        case None if not is_claimed:
            return
        case {"format": int() as found} if found == FORMAT:
            return
        case {"format": int() as found, "endmark": str() as other}:
            which = f"it has format {found} of endmark {other}"
        case None:
            which = "the file is missing"
        case _:
            which = "the file has other fields"
    raise ConfigError(
        f"{checkpoint / _FORMAT}: endmark {version('endmark')} reads checkpoints of format {FORMAT}, "
        f"but {which}; install the version that has made the checkpoint, restore the file from a copy, "
        "or start with a new checkpoint and an empty warehouse"
    )


@dataclass(frozen=True)
class KnownTable:
    """A Delta table that a checkpoint writes.

    Args:
        id: the id in the table's metadata; it stays the same when the table is moved.
        path: the directory where a job last found the table.
        newest: the newest batch that the table had when a job last started or ended; `None` if it had none.
        stopped: the first batch that the table did not get, after it was taken out of the pipeline file;
            `None` if it was not.
    """

    id: str
    path: str
    newest: int | None = None
    stopped: int | None = None


def known_tables(checkpoint: Location) -> dict[str, KnownTable]:
    """Return the tables that batches of a claimed checkpoint may have written, by name."""
    found = stored_json(checkpoint, _TABLES) or {}
    return {name: KnownTable(**table) for name, table in found.items()}


def know_tables(checkpoint: Location, tables: Mapping[str, KnownTable]) -> None:
    """Store the tables that a claimed checkpoint writes, before a batch writes them."""
    text = json.dumps({name: asdict(table) for name, table in tables.items()}, indent=2, sort_keys=True)
    write_text(checkpoint, _TABLES, text)


def stop_others(checkpoint: Location, names: Collection[str], batch: int) -> None:
    """Note which tables of a claimed checkpoint get no rows any more.

    Args:
        checkpoint: the directory of the checkpoint.
        names: the tables that get rows.
        batch: the number of the next batch.
    """
    known = known_tables(checkpoint)
    stopped = {
        name: replace(table, stopped=batch)
        for name, table in known.items()
        if name not in names and table.stopped is None
    }
    if stopped:
        know_tables(checkpoint, known | stopped)


def next_batch(checkpoint: Location) -> int:
    """Return the number of the first batch that Spark has not committed."""
    last = newest(checkpoint / "spark" / "commits")
    return 0 if last is None else last + 1


def pin(checkpoint: Location, settings: Mapping[str, Any], warehouse: Location) -> None:
    """Store the settings of a new checkpoint; refuse other settings for a checkpoint that exists.

    Tables may come and go. But the checkpoint keeps the settings of each table that it ever had. Columns may
    become optional, and optional ones may be new, if that changes nothing of what the checkpoint has done. Of
    new ones, the checkpoint keeps the first offsets with them.

    Args:
        checkpoint: the directory of the checkpoint, which is locked.
        settings: the settings of the present file.
        warehouse: the directory of the tables.

    Raises:
        ConfigError: settings differ; the text names them with both values.
    """
    before = pinned_settings(checkpoint) or settings
    columns = column_changes(before, settings, checkpoint, warehouse)
    pinned = columns.applied(before)
    if changes := changed(pinned, settings):
        raise ConfigError(
            f"checkpoint {checkpoint} was made with other settings: "
            f"{'; '.join([', '.join(changes), *columns.refusals])}; "
            "go back to them, or begin a new checkpoint by `endmark migrate FILE`, which says what it costs"
        )
    tables = {**settings["tables"], **pinned["tables"]}
    stored = {**pinned, "keys": settings["keys"], "tables": tables}
    if columns.first_offsets:
        # It comes first. After a crash in between, the columns are still new to the settings.
        _keep_first_offsets(checkpoint, columns.first_offsets)
    if stored != pinned_settings(checkpoint):
        write_text(checkpoint, _SETTINGS, json.dumps(stored, indent=2, sort_keys=True))


def buckets_of(checkpoint: Location) -> int:
    """Return the number of buckets that a checkpoint has, or two if no job has made one there."""
    return int((pinned_settings(checkpoint) or {}).get("buckets", 2))


def buckets_before(checkpoint: Location, buckets: int) -> int | None:
    """Return the number of buckets that a checkpoint has, if each of them can be split to make `buckets`."""
    pinned = (pinned_settings(checkpoint) or {}).get("buckets", buckets)
    return pinned if pinned < buckets and buckets % pinned == 0 else None


def earlier_buckets(checkpoint: Location, buckets: int) -> EarlierBuckets:
    """Return the place for copies of the state of all buckets, of which there are `buckets`."""
    from endmark.engine.earlier_buckets import EarlierBuckets  # whose arrays other commands do not need

    return EarlierBuckets(checkpoint.resolve() / _COPIES, buckets)


def rescaled(checkpoint: Location, before: int, buckets: int) -> None:
    """Note that the buckets of a checkpoint were split, once their states are copied."""
    rescaling = {"before": before, "buckets": buckets, "batch": next_batch(checkpoint)}
    write_text(checkpoint, _RESCALING, json.dumps(rescaling))
    stored = {**(pinned_settings(checkpoint) or {}), "buckets": buckets}
    write_text(checkpoint, _SETTINGS, json.dumps(stored, indent=2, sort_keys=True))


def fewer_buckets(checkpoint: Location) -> EarlierBuckets | None:
    """Return the buckets that were split, until a batch is committed; the copies are removed then."""
    found = stored_json(checkpoint, _RESCALING)
    if found is None:
        return None
    if next_batch(checkpoint) <= found["batch"]:
        return earlier_buckets(checkpoint, found["before"])
    copies = checkpoint / _COPIES
    remove(copies, entries(copies, below=True))
    if isinstance(copies, Path):
        shutil.rmtree(copies, ignore_errors=True)
    remove(checkpoint, [_RESCALING])
    return None


def pinned_settings(checkpoint: Location) -> dict[str, Any] | None:
    """Return the settings that a checkpoint was made with; `None` if no job has made one there."""
    found: dict[str, Any] | None = stored_json(checkpoint, _SETTINGS)
    return found


def first_offsets(checkpoint: Location) -> dict[str, dict[str, dict[int, int]]]:
    """Return the first offsets with columns that are younger than a checkpoint.

    They are by stream, column and partition. A partition that is not named is read with the column from its
    start on, and so are columns that are not named.
    """
    found = stored_json(checkpoint, _FIRST_OFFSETS) or {}
    return {
        stream: {
            column: {int(partition): offset for partition, offset in partitions.items()}
            for column, partitions in columns.items()
        }
        for stream, columns in found.items()
    }


def _keep_first_offsets(checkpoint: Location, new: Mapping[tuple[str, str], Mapping[str, int]]) -> None:
    """Store the first offsets with new columns, given by stream and column, beside those of earlier ones."""
    known: dict[str, dict[str, Any]] = {**first_offsets(checkpoint)}
    for (stream, column), partitions in new.items():
        known[stream] = {**known.get(stream, {}), column: dict(partitions)}
    write_text(checkpoint, _FIRST_OFFSETS, json.dumps(known, indent=2, sort_keys=True))


def start_offsets(checkpoint: Location) -> dict[str, dict[str, int]]:
    """Return the offsets at which the first batch began, by topic and partition; empty before a first start.

    A partition of a topic that is not named came later, and was read from its offset 0 on.
    """
    found: dict[str, dict[str, int]] = stored_json(checkpoint, _START_OFFSETS) or {}
    return found


def keep_start_offsets(checkpoint: Location, offsets: Mapping[str, Mapping[str, int]]) -> None:
    """Store the offsets at which the first batch begins. If it is repeated, Kafka may hold fewer records."""
    write_text(checkpoint, _START_OFFSETS, json.dumps(offsets, indent=2, sort_keys=True))


def topic_ids(checkpoint: Location) -> dict[str, str]:
    """Return Kafka's ids of the topics that the checkpoint has read; empty before a first start."""
    found: dict[str, str] = stored_json(checkpoint, _TOPICS) or {}
    return found


def keep_topic_ids(checkpoint: Location, ids: Mapping[str, str]) -> None:
    """Store the ids of topics. An offset says nothing of another topic of the same name."""
    write_text(checkpoint, _TOPICS, json.dumps(ids, indent=2, sort_keys=True))


def gaps(checkpoint: Location) -> tuple[Gap, ...]:
    """Return the offsets that a checkpoint has skipped, in the order in which starts have found them."""
    return tuple(Gap(**each) for each in stored_json(checkpoint, _GAPS) or ())


def keep_gaps(checkpoint: Location, found: Sequence[Gap]) -> None:
    """Store all offsets that a claimed checkpoint skips, before a batch skips the newest of them."""
    write_text(checkpoint, _GAPS, json.dumps([asdict(each) for each in found], indent=2))


def operators_before(checkpoint: Location) -> list[dict[str, str]] | None:
    """Return the settings of the joins and group-bys of a frame's query; `None` before its first batch."""
    if newest(checkpoint / "spark" / "offsets") is None:
        return None
    found: list[dict[str, str]] | None = stored_json(checkpoint, _OPERATORS)
    return found


def keep_operators(checkpoint: Location, operators: Sequence[Mapping[str, str]]) -> None:
    """Store the settings of the joins and group-bys of a frame's query, before its first batch."""
    write_text(checkpoint, _OPERATORS, json.dumps(operators, indent=2))


def stored_json(checkpoint: Location, name: str) -> Any:
    """Return the value in a file of JSON; `None` without the file.

    Raises:
        ConfigError: the file has no JSON.
    """
    if (text := text_if_any(checkpoint, name)) is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"{checkpoint / name} is no JSON ({error}); restore this file from a copy of the checkpoint, or "
            "start with a new checkpoint and an empty warehouse"
        ) from error
