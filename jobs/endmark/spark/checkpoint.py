"""A checkpoint belongs to one driver at a time and to one set of tables."""

from __future__ import annotations

import fcntl
import json
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from endmark.errors import ConfigError, MissingPartError
from endmark.ops.changes import PINNED, change_of, fits
from endmark.spark.session import FIRST_FORMAT, SAFE_FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from endmark.pipeline import Pipeline


_FORMAT = "state_format"
_CONTROL_TOPIC = "pipeline.control.topic"
# What a file may leave out since later than the first version, and what that means.
_USUAL: dict[str, Any] = {
    "streams.*.punctuation_scope": "partition",
    "streams.*.ordered": {},
    "streams.*.unique": None,
    "streams.*.clustered": None,
    "streams.*.closes": None,
    "streams.*.format": "json",
    "streams.*.updates": "dead_letter",
    "streams.*.event_time.idle": None,
    "lookup.miss": "drop",
    "lookup.cardinality": "many_to_one",
    "lookup.as_of": None,
    "join.type": "inner",
    "join.where": None,
    "join.preset": "auto",
    "aggregate.running": False,
    "tables.punctuations": "punctuations",
    "tables.running": "running",
}
_PARTS = ("streams", "lookup", "join", "aggregate", "tables")


@contextmanager
def claimed(checkpoint: Path) -> Iterator[str]:
    """Hold the checkpoint for this process; yields its app id, minted with it.

    Delta skips a batch whose (app id, batch id) it has seen. Batch ids restart at 0 with a new checkpoint, so
    an app id must never outlive its checkpoint: it lives in it.

    Raises:
        MissingPartError: another process holds it.
    """
    directory = checkpoint / "endmark"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MissingPartError(
                f"checkpoint {checkpoint} is in use by another job; stop that one, or use another checkpoint"
            ) from error
        app_id = directory / "app_id"
        if not app_id.exists():
            partial = directory / "app_id.part"
            partial.write_text(f"endmark-{uuid.uuid4()}")
            partial.rename(app_id)
        yield app_id.read_text()


def settings(pipeline: Pipeline, buckets: int) -> dict[str, Any]:
    """Whatever rows in state and tables depend on: all that takes a new checkpoint.

    Spelled as the first version did, which knew inner joins on one column and no output
    punctuations, so that its checkpoints go on.
    """
    spec = _one_by_itself(pipeline.model_dump(mode="json"))
    parts: dict[tuple[str, ...], Any] = {(part,): spec[part] for part in _PARTS}
    parts |= {("relations", name): relation for name, relation in spec["relations"].items()}
    settings: dict[str, Any] = {"buckets": buckets, _CONTROL_TOPIC: pipeline.control_topic}
    return settings | {".".join(("pipeline", *path)): _pinned(path, part) for path, part in parts.items()}


def _pinned(path: tuple[str, ...], value: Any) -> Any:
    """What a checkpoint keeps of a part of the file: what takes a new one, and is not as usual."""
    if isinstance(value, list) and any(isinstance(each, dict) for each in value):  # lookups
        return [_pinned(path, each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {
        name: _pinned((*path, name), inner)
        for name, inner in value.items()
        if _is_pinned((*path, name), inner)
    }
    return {name: inner for name, inner in kept.items() if inner != {} or value[name] == {}}


def _is_pinned(path: tuple[str, ...], value: Any) -> bool:
    if any(fits(pattern, path) and value == usual for pattern, usual in _USUAL.items()):
        return False
    return bool(value and isinstance(value, dict)) or change_of(path) in PINNED


def _one_by_itself(value: Any) -> Any:
    """Lists of one name as that name, and those of none as null."""
    if isinstance(value, dict):
        return {name: _one_by_itself(inner) for name, inner in value.items()}
    if isinstance(value, list):
        several = [_one_by_itself(inner) for inner in value]
        return several if len(several) > 1 else several[0] if several else None
    return value


def pin(checkpoint: Path, settings: Mapping[str, Any]) -> None:
    """Keep what state was built with; refuse to go on with anything else.

    Raises:
        ConfigError: naming what differs, and both values of it.
    """
    file = checkpoint / "endmark" / "settings.json"
    if not file.exists():
        partial = file.with_suffix(".part")
        made = {**settings, _FORMAT: SAFE_FORMAT}
        partial.write_text(json.dumps(made, indent=2, sort_keys=True))
        partial.rename(file)
    pinned = json.loads(file.read_text())
    for name, value in pinned.items():
        part, *path = name.split(".")
        if part == "pipeline":  # earlier versions pinned more
            pinned[name] = _pinned(tuple(path), value)
    pinned.setdefault(_CONTROL_TOPIC, settings.get(_CONTROL_TOPIC))  # pinned since later than the others
    changes = [change for name, now in settings.items() for change in _changes(name, pinned.get(name), now)]
    if changes:
        raise ConfigError(
            f"checkpoint {checkpoint} was made with other settings: {', '.join(changes)}; "
            "go back to them, or start with a new checkpoint and an empty warehouse"
        )


def state_format(checkpoint: Path) -> str:
    """The format of Spark's state in a pinned checkpoint; those made before it was pinned have the first."""
    pinned = json.loads((checkpoint / "endmark" / "settings.json").read_text())
    return str(pinned.get(_FORMAT, FIRST_FORMAT))


def _changes(name: str, was: Any, now: Any) -> list[str]:
    """What differs, by the names of the pipeline file."""
    if was == now:
        return []
    if isinstance(was, dict) and isinstance(now, dict):
        fields = sorted(was.keys() | now.keys())
        return [
            change
            for field in fields
            for change in _changes(f"{name}.{field}", was.get(field), now.get(field))
        ]
    return [f"{name.removeprefix('pipeline.')} was {_shown(was)}, is {_shown(now)}"]


def _shown(value: Any) -> str:
    return "left out" if value is None else json.dumps(value)
