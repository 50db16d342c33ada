"""A pipeline file as text: its YAML, the lines its fields stand on, and fields that are set from outside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from endmark.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """YAML 1.2's idea of a boolean: in YAML 1.1, `on: item_id` has the key True."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))


class PipelineText:
    """A pipeline file that has been read.

    Raises:
        ConfigError: it cannot be read, or is no mapping in YAML.
    """

    def __init__(self, path: Path) -> None:
        try:
            text = path.read_text(encoding="utf-8")
            self._root = yaml.compose(text, _Loader)
            self.document: Any = yaml.load(text, _Loader)  # noqa: S506  # a SafeLoader
        except OSError as error:
            raise ConfigError(f"{path}: cannot read the pipeline file: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: not a YAML document: {error}") from error
        if not isinstance(self.document, dict):
            raise ConfigError(
                f"{path}: a pipeline file is a mapping with name, streams, relations, lookup, join"
            )

    def line_of(self, field: Sequence[str]) -> int | None:
        """The line, counted from 1, of a field or of the innermost part around it that is there."""
        node, line = self._root, None
        for name in field:
            inner = _inner(node, name)
            if inner is None:
                break
            key, node = inner
            line = key.start_mark.line + 1
        return line

    def set(self, assignment: str) -> None:
        """Set a field, written as `join.window.left=10s` with a value as in the file.

        Raises:
            ConfigError: the text is no such assignment, or what it names is within a value.
        """
        field, equals, written = assignment.partition("=")
        if not equals or not all(names := field.split(".")):
            raise ConfigError(f"--set {assignment}: write FIELD=VALUE, such as join.window.left=10s")
        try:
            value = yaml.load(written, _Loader)  # noqa: S506  # a SafeLoader
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {assignment}: the value is no YAML: {error}") from None
        *parents, last = names
        place = self.document
        for number, name in enumerate(parents):
            place = place[int(name)] if _is_item(place, name) else _member(place, name)
            if not isinstance(place, dict | list):
                within = ".".join(parents[: number + 1])
                raise ConfigError(f"--set {assignment}: {within} is {place!r}, which has no fields")
        if isinstance(place, list) and not _is_item(place, last):
            raise ConfigError(
                f"--set {assignment}: there is a list of {len(place)}; name one by 0 to {len(place) - 1}"
            )
        place[int(last) if isinstance(place, list) else last] = value


def _is_item(place: Any, name: str) -> bool:
    return isinstance(place, list) and name.isdecimal() and int(name) < len(place)


def _member(place: Any, name: str) -> Any:
    return place.setdefault(name, {}) if isinstance(place, dict) else None


def _inner(node: yaml.Node | None, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Where a member's name or an item stands, and its value."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == name), None)
    if isinstance(node, yaml.SequenceNode) and name.isdecimal() and int(name) < len(node.value):
        item = node.value[int(name)]
        return item, item
    return None
