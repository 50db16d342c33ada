"""The settings of a pipeline whose change needs a new checkpoint, and the changes between two files."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from endmark.control.tuning.changes import PINNED, rule_of
from endmark.driver.one_spelling import avro_schemas, in_one_spelling, same_expression
from endmark.pipeline.change_rules import Change
from endmark.pipeline.duration_words import as_in_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from endmark.pipeline import Pipeline

_EXPRESSION = re.compile(r"steps\.[^.]+\.(where|derive\.[^.]+)|streams\.[^.]+\.closes\.when")
_DURATION = re.compile(r"P(?=.)(\d+D)?(T[\d.HMS]+)?")
_SECTIONS = "streams", "relations", "steps"  # of the settings, with entries by name


def settings(pipeline: Pipeline, buckets: int) -> dict[str, Any]:
    """Return the settings whose change needs a new checkpoint, by their names in the pipeline file.

    Args:
        pipeline: the pipeline.
        buckets: the number of hash shares of state, which is no field of the file.

    Raises:
        ConfigError: a file of a schema cannot be read.
    """
    spec = pipeline.model_dump(mode="json")
    spec["control"]["topic"] = pipeline.control_topic
    in_one_spelling(spec, pipeline)
    # A join names its key. That of one input alone follows from several fields, and from tables, which may
    # come and go.
    first = pipeline.stages[0]
    keys = {name: list(first.key) for name in first.inputs if first.join is None}
    pinned = _pinned((), spec)
    for name, schema in avro_schemas(pipeline).items():
        pinned["streams"][name]["schema_file"] = schema
    return {"buckets": buckets, "keys": keys, **pinned}


def _pinned(path: tuple[str, ...], value: Any) -> Any:
    """Return a part of the file without the fields that may change under a checkpoint."""
    if not isinstance(value, dict):
        return value
    kept = {
        name: _pinned((*path, name), inner)
        for name, inner in value.items()
        if _is_pinned((*path, name), inner)
    }
    return {name: inner for name, inner in kept.items() if inner != {} or value[name] == {}}


def _is_pinned(path: tuple[str, ...], value: Any) -> bool:
    return bool(value and isinstance(value, dict)) or rule_of(path).change in PINNED


def changed(pinned: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Describe each setting that a checkpoint cannot take, with its name, its old and its new value.

    Args:
        pinned: the settings of the checkpoint.
        settings: the settings of the present pipeline file. Tables that only one of both has do not count.
    """
    stored = {**pinned, "tables": {**settings["tables"], **pinned["tables"]}}
    compared = {**settings, "tables": {**pinned["tables"], **settings["tables"]}}
    del compared["keys"]
    changes = [
        change
        for name, now in compared.items()
        for change in (
            _entries(name, stored.get(name) or {}, now)
            if name in _SECTIONS
            else _changes(name, stored.get(name), now)
        )
    ]
    # If an input is new, its section says so.
    return changes or _keys(pinned["keys"], settings["keys"])


def _keys(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a description of each input alone whose key is another one, because of a table."""
    return [
        f"the job distributed rows of {name} by {', '.join(was[name])}, but would distribute them by "
        f"{', '.join(key)}, since a table with a key has come or gone"
        for name, key in now.items()
        if was.get(name, key) != key
    ]


def _entries(section: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return a description of each entry of a section that differs. Whole entries are named, not quoted."""
    new = {name: now[name] for name in sorted(now.keys() - was.keys())}
    changes = []
    for name in sorted(was):
        if name in now:
            changes += _changes(f"{section}.{name}", was[name], now[name])
            continue
        renamed = next((other for other, entry in new.items() if entry == was[name]), None)
        if renamed is not None:
            del new[renamed]
            changes.append(
                f"{section}.{name} is named {renamed} now, and a name is a part of state and columns"
            )
        else:
            changes.append(f"{section}.{name} is left out")
    return changes + [f"{section}.{name} is new" for name in new]


def _changes(name: str, was: Any, now: Any) -> list[str]:
    """Return a description of each setting that differs, by its name in the pipeline file."""
    if was == now or (_EXPRESSION.fullmatch(name) and was and now and same_expression(was, now)):
        return []
    if isinstance(was, dict) and isinstance(now, dict):
        fields = sorted(was.keys() | now.keys())
        return [
            change
            for field in fields
            for change in _changes(f"{name}.{field}", was.get(field), now.get(field))
        ]
    more = f" (a multiple of {was} is possible)" if name == "buckets" else ""
    if name != "buckets" and None not in (was, now) and rule_of(name.split(".")).change is Change.TURN:
        more = f" ({Change.TURN.advice})"
    return [f"{name} was {_shown(was)}, is {_shown(now)}{more}"]


def _shown(value: Any) -> str:
    return "left out" if value is None else json.dumps(_as_in_files(value))


def _as_in_files(value: Any) -> Any:
    """Return a setting with durations as a pipeline file spells them; settings have those of ISO 8601."""
    if isinstance(value, dict):
        return {name: _as_in_files(inner) for name, inner in value.items()}
    if isinstance(value, str) and _DURATION.fullmatch(value):
        return as_in_files(TypeAdapter(timedelta).validate_python(value))
    return value
