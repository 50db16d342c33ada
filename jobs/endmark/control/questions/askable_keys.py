"""The keys that a question may ask for, and their values as people and control records spell them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from endmark.domain import Domain, PunctuationError
from endmark.errors import ConfigError
from endmark.punctuation.scalars import TEXTS, from_scalar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from endmark.domain import Value
    from endmark.pipeline import Pipeline
    from endmark.punctuation.scalars import Scalar
    from endmark.types import ColumnType

    # The columns of a key with their types.
    Kinds = Mapping[str, ColumnType]


def keys_of(pipeline: Pipeline) -> tuple[dict[str, ColumnType], ...]:
    """Return the keys that may be asked for, each once: those of the stages."""
    found = {tuple(sorted(stage.key)): stage.key_types for stage in pipeline.stages}
    return tuple(found.values())


def require_askable(keys: Sequence[Kinds], key: Mapping[str, Any]) -> dict[str, Value]:
    """Return the values of a key that a question asks for.

    Args:
        keys: the keys that may be asked for.
        key: the value of each column, spelled as in data records.

    Raises:
        ConfigError: no stage has this key, or a value is none of its column.
    """
    kinds = next((each for each in keys if each.keys() == key.keys()), None)
    if kinds is None:
        there = " or ".join(", ".join(each) for each in keys)
        raise ConfigError(f"{', '.join(key) or 'nothing'}: no step has this key; give a value of {there}")
    found: dict[str, Value] = {}
    for name, kind in kinds.items():
        try:
            value = found[name] = from_scalar(key[name], kind.domain)
        except PunctuationError as error:
            raise ConfigError(f"{name}: {error}") from error
        if kind.domain is Domain.DECIMAL and not kind.fits(_number(value)):
            raise ConfigError(f"{name}: {value} has more digits than a {kind}")
    return found


def _number(value: Any) -> Decimal:
    found: Decimal = value
    return found


def read_key(keys: Sequence[Kinds], texts: Sequence[str]) -> dict[str, Scalar]:
    """Read a key that somebody has typed, such as `order_id=42`.

    Args:
        keys: the keys that may be asked for.
        texts: one text for each column of the key.

    Raises:
        ConfigError: a text has another form, no stage has this key, or a value is none of its column.
    """
    key: dict[str, Scalar] = {}
    for text in texts:
        name, equals, written = text.partition("=")
        if not equals or not name or name in key:
            raise ConfigError(f"{text!r}: write COLUMN=VALUE once for each column of the key")
        kind = next((kinds[name] for kinds in keys if name in kinds), None)
        key[name] = written if kind is None or kind.domain in TEXTS else _plain(written)
    require_askable(keys, key)
    return key


def _plain(written: str) -> Any:
    try:
        return json.loads(written)
    except ValueError:
        return written  # which no column of a number takes, and the error says so
