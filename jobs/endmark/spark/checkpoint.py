"""A checkpoint belongs to one driver at a time and to one set of tables."""

from __future__ import annotations

import fcntl
import json
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from endmark.errors import ConfigError, MissingPartError
from endmark.spark.session import FIRST_FORMAT, SAFE_FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from endmark.pipeline import Lookup, Pipeline


_FORMAT = "state_format"
_CONTROL_TOPIC = "pipeline.control.topic"
_JOIN = "pipeline.join"
# Knobs of the join, which earlier versions pinned if the file said anything of them.
_FREE = ("purge_every", "memory")


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
    """Whatever rows in state and tables depend on. A relation may move, and pages may change their size.

    Spelled as the first version did, which knew inner joins on one column and no output
    punctuations, so that its checkpoints go on.
    """
    spec = _one_by_itself(pipeline.model_dump(mode="json"))
    unsaid = {"type": "inner", "where": None, "preset": "auto"}
    said = {name: value for name, value in spec["join"].items() if unsaid.get(name, ...) != value}
    spec["join"] = _pinned_of_join(said)
    for stream in spec["streams"].values():
        for field, usual in (
            ("punctuation_scope", "partition"),
            ("ordered", {}),
            ("unique", None),
            ("clustered", None),
            ("closes", None),
            ("format", "json"),
            ("updates", "dead_letter"),
        ):
            if stream[field] == usual:
                del stream[field]
        if stream["event_time"]["idle"] is None:
            del stream["event_time"]["idle"]
    for table in ("punctuations", "running"):
        if spec["tables"][table] == table:
            del spec["tables"][table]
    if spec["aggregate"] is not None and not spec["aggregate"]["running"]:
        del spec["aggregate"]["running"]
    settings: dict[str, Any] = {"buckets": buckets, _CONTROL_TOPIC: pipeline.control_topic}
    settings |= {f"pipeline.{name}": spec[name] for name in ("streams", "join", "aggregate", "tables")}
    lookups = [_lookup(lookup) for lookup in pipeline.lookups]
    settings["pipeline.lookup"] = _one_by_itself(lookups)
    for name, relation in spec["relations"].items():
        settings[f"pipeline.relations.{name}"] = {field: relation[field] for field in ("key", "columns")}
    return settings


def _pinned_of_join(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in _FREE}


def _lookup(lookup: Lookup) -> dict[str, Any]:
    spec = _one_by_itself(lookup.model_dump(mode="json"))
    if lookup.park is not None:  # how often and how far apart may change
        spec["miss"] = {"park": {"then": lookup.fate}}
    settings = {name: spec[name] for name in ("stream", "relation", "key")}
    for field, usual in (("miss", "drop"), ("cardinality", "many_to_one"), ("as_of", None)):
        if spec[field] != usual:
            settings[field] = spec[field]
    return settings


def _one_by_itself(value: Any) -> Any:
    """Lists of one name as that name, and those of none as null."""
    if isinstance(value, dict):
        return {name: _one_by_itself(inner) for name, inner in value.items()}
    if isinstance(value, list) and len(value) < 2:
        return value[0] if value else None
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
    if _JOIN in pinned:
        pinned[_JOIN] = _pinned_of_join(pinned[_JOIN])
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
