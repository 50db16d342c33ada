"""The kinds of damage to the files of a job that does not run, and what its next start must do.

Some of them are what a crash at a certain moment leaves behind. Others are what people, disks and backups do.
A job recovers if its tables are right in the end. It refuses if it ends with an error that says which file or
setting is wrong, before it has changed any table.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from damage.home import Home
from endmark.driver.checkpoint import FORMAT, pinned_settings
from endmark.driver.moved_checkpoint import follow_move
from endmark.spark.rescale import rescale
from endmark.storage import remove, write_text

Damage = Callable[[Home], None]


@dataclass(frozen=True)
class Kind:
    """A kind of damage.

    Args:
        how: tells it in a table of the docs.
        do: damages the files; it fails if they are not there, so each run with a damage has it.
        refused: a regular expression that the job's error must match; `None`: the job recovers.
        settings: fields that are set in the pipeline file for the next start.
        buckets: the number of buckets of the next start; two at the first one.
        repeats: whether the last batch is run again.
        alters: whether the rows of the relation are others at the next start.
    """

    how: str
    do: Damage
    refused: str | None = None
    settings: tuple[str, ...] = ()
    buckets: int = 2
    repeats: bool = False
    alters: bool = False


def _remove(file: Path) -> None:
    """Remove a file and Hadoop's checksum of it."""
    file.unlink()
    _checksum_of(file).unlink(missing_ok=True)


def _checksum_of(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")


def _tear(file: Path) -> None:
    """Keep the first half of a file, without Hadoop's checksum, as a crash of the machine may leave it."""
    content = file.read_bytes()
    assert len(content) > 1, file
    file.write_bytes(content[: len(content) // 2])
    _checksum_of(file).unlink(missing_ok=True)


def _lose_commit(home: Home) -> None:
    _remove(home.spark / "commits" / str(home.last_batch))


def _split(home: Home) -> None:
    follow_move(home.spark)
    session = home.session(2)
    try:
        rescale(session, home.checkpoint, 2, 4, lambda line: None)
    finally:
        session.stop()


def _split_half(home: Home) -> None:
    """Take the commit of Spark's four partitions, and all that came behind it."""
    pinned = pinned_settings(home.checkpoint)
    _split(home)
    _lose_commit(home)
    write_text(home.checkpoint, "endmark/settings.json", json.dumps(pinned))
    remove(home.checkpoint, ["endmark/rescaling.json"])


def _lose_commit_of_tables(home: Home) -> None:
    """Take the last batch from the checkpoint, and from the last table that has it."""
    last = home.last_batch
    having = [table for table in home.tables if _has_batch(_newest_version(table), last)]
    assert having, "no table has rows of the last batch"
    _newest_version(having[-1]).unlink()
    _lose_commit(home)


def _newest_version(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


def _has_batch(version: Path, batch: int) -> bool:
    actions = map(json.loads, version.read_text().splitlines())
    return any(action["txn"]["version"] == batch for action in actions if "txn" in action)


def _lose_plan(home: Home) -> None:
    """Take the newest plan and its commit, of a batch whose rows are in a table."""
    _require_in_a_table(home)
    _remove(home.spark / "offsets" / str(home.last_batch))
    _lose_commit(home)


def _require_in_a_table(home: Home) -> None:
    assert any(_has_batch(_newest_version(table), home.last_batch) for table in home.tables)


def _go_back(home: Home) -> None:
    """Put an older copy of the checkpoint in the place of the newest one."""
    last = home.last_batch
    for log in ("offsets", "commits"):
        for number in (last, last - 1):
            _remove(home.spark / log / str(number))


def _age_tables(home: Home) -> None:
    """Take the last batch from all tables that have it. The checkpoint has its commit."""
    last = home.last_batch
    having = [table for table in home.tables if _has_batch(_newest_version(table), last)]
    assert having, "no table has rows of the last batch"
    for table in having:
        _newest_version(table).unlink()


def _tear_plan(home: Home) -> None:
    _require_in_a_table(home)
    _tear(home.spark / "offsets" / str(home.last_batch))
    _lose_commit(home)


def _tear_next_plan(home: Home) -> None:
    """Leave half of the plan of a batch that no table has."""
    last = home.last_batch
    torn = home.spark / "offsets" / str(last + 1)
    shutil.copy(home.spark / "offsets" / str(last), torn)
    _tear(torn)


def _empty_next_plan(home: Home) -> None:
    (home.spark / "offsets" / str(home.last_batch + 1)).touch(exist_ok=False)


def _tear_commit(home: Home) -> None:
    _tear(home.spark / "commits" / str(home.last_batch))


def _state_files(home: Home) -> list[Path]:
    """Return the newest file of state of each bucket."""
    partitions = [each for each in (home.spark / "state" / "0").iterdir() if each.name.isdecimal()]
    assert partitions
    return [_newest(each.glob("[0-9]*.[cz]*")) for each in partitions]


def _newest(files: Iterable[Path]) -> Path:
    return max(files, key=lambda file: int(file.name.partition("_")[0].partition(".")[0]))


def _flip_state(home: Home) -> None:
    for file in _state_files(home):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)


def _lose_state(home: Home) -> None:
    for file in _state_files(home):
        _remove(file)


def _write_later_format(home: Home) -> None:
    file = home.checkpoint / "endmark" / "format.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": FORMAT + 1, "endmark": "9.9"}))


def _lose_checkpoint(home: Home) -> None:
    shutil.rmtree(home.checkpoint)


def _lose_tables(home: Home) -> None:
    shutil.rmtree(home.directory / "warehouse")


def _tear_version(home: Home) -> None:
    """Tear the newest version of a table whose last batch is in the checkpoint."""
    [table] = [each for each in home.tables if each.name == ("groups" if _has_groups(home) else "results")]
    _tear(_newest_version(table))


def _has_groups(home: Home) -> bool:
    return (home.directory / "warehouse" / "groups").exists()


def _do_nothing(_home: Home) -> None:
    """Leave all files as they are."""


KINDS = {
    "none": Kind("nothing is damaged: the control", _do_nothing),
    "commit lost": Kind(
        "the last batch is in all tables, and the checkpoint has no commit of it", _lose_commit, repeats=True
    ),
    "commit lost between tables": Kind(
        "in addition, one of the tables lacks the batch", _lose_commit_of_tables, repeats=True
    ),
    "relation altered": Kind(
        "in addition to a lost commit, all rows of the relation are altered before the batch is repeated",
        _lose_commit,
        repeats=True,
        alters=True,
    ),
    "plan lost": Kind(
        "tables have a batch for which the checkpoint has no offsets", _lose_plan, r"table \S+ has batch \d+"
    ),
    "older checkpoint": Kind(
        "a backup of the checkpoint is put in the place of a newer one", _go_back, r"table \S+ has batch \d+"
    ),
    "older tables": Kind(
        "a backup of the tables is put in the place of newer ones", _age_tables, r"table \S+ has no batch"
    ),
    "plan torn": Kind(
        "half of the file with a batch's offsets is there; tables have the batch, and it has no commit",
        _tear_plan,
        r"table \S+ has batch \d+",
    ),
    "plan of a committed batch torn": Kind(
        "half of the file with a batch's offsets is there, and the batch has a commit",
        lambda home: _tear(home.spark / "offsets" / str(home.last_batch)),
        r"offsets/\d+",
    ),
    "next plan torn": Kind(
        "half of the file with the offsets of a batch that no table has is there", _tear_next_plan
    ),
    "next plan empty": Kind(
        "the file with the offsets of a batch that no table has is empty", _empty_next_plan
    ),
    "commit torn": Kind("half of the file with a batch's commit is there", _tear_commit, repeats=True),
    "state altered": Kind(
        "a bit of each bucket's newest file of state is another one", _flip_state, r"state/0/\d"
    ),
    "state lost": Kind("the newest file of state of each bucket is missing", _lose_state, r"state/0/\d"),
    "metadata lost": Kind(
        "the file with the query's id is missing", lambda home: _remove(home.spark / "metadata"), "metadata"
    ),
    "metadata torn": Kind(
        "half of the file with the query's id is there",
        lambda home: _tear(home.spark / "metadata"),
        "metadata",
    ),
    "settings torn": Kind(
        "half of the file with the checkpoint's settings is there",
        lambda home: _tear(home.checkpoint / "endmark" / "settings.json"),
        r"endmark/settings\.json",
    ),
    "tables' ids torn": Kind(
        "half of the file with the ids of the tables is there",
        lambda home: _tear(home.checkpoint / "endmark" / "tables.json"),
        r"endmark/tables\.json",
    ),
    "first offsets torn": Kind(
        "half of the file with the first offsets is there",
        lambda home: _tear(home.checkpoint / "endmark" / "start_offsets.json"),
        r"endmark/start_offsets\.json",
    ),
    "app id lost": Kind(
        "the file with the id of the checkpoint is missing",
        lambda home: (home.checkpoint / "endmark" / "app_id").unlink(),
        r"endmark/app_id: the file is missing",
    ),
    "other format": Kind(
        "the checkpoint has the format of a later version",
        _write_later_format,
        r"format\.json: endmark \S+ reads checkpoints of format 1, but it has format 2 of endmark 9\.9",
    ),
    "format lost": Kind(
        "the file with the format of the checkpoint is missing",
        lambda home: (home.checkpoint / "endmark" / "format.json").unlink(),
        r"endmark/format\.json: .* the file is missing",
    ),
    "checkpoint lost": Kind(
        "the tables are there without their checkpoint", _lose_checkpoint, "another checkpoint"
    ),
    "tables lost": Kind("the checkpoint is there without its tables", _lose_tables, r"table \S+ is missing"),
    "table torn": Kind("half of a table's newest version is there", _tear_version, r"_delta_log"),
    "other buckets": Kind(
        "the job starts with half as many buckets more", _do_nothing, "buckets was 2, is 3", buckets=3
    ),
    "buckets doubled": Kind("the job starts with twice as many buckets", _do_nothing, buckets=4),
    "buckets half doubled": Kind(
        "a start with twice as many buckets was killed while Spark split the state; the next one has as many",
        _split_half,
        buckets=4,
    ),
    "buckets half doubled, others next": Kind(
        "the same, and the next start has the old number", _split_half, "start the job with --buckets 4"
    ),
    "buckets doubled twice": Kind(
        "a job was killed behind the split of its buckets, and the next one starts with twice as many",
        _split,
        buckets=8,
    ),
    "buckets doubled and commit lost": Kind(
        "the last batch has no commit, and the job starts with twice as many buckets",
        _lose_commit,
        buckets=4,
        repeats=True,
    ),
    "knobs changed": Kind(
        "the job starts with smaller batches",
        _do_nothing,
        settings=("batch.records=70",),
    ),
}
