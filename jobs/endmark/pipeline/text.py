"""A pipeline file as text: its YAML, the line of each field, and fields that are set from outside.

Only the YAML that a pipeline needs is read: mappings, lists and plain values, by the rules of YAML 1.2.
Aliases and tags are refused, so a small file cannot make a large document, or one that contains itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from endmark.errors import ConfigError

MOST_BYTES = 256 * 1024
MOST_LEVELS = 50
_TAG = "tag:yaml.org,2002:"
_ITEM = re.compile(r"[0-9]{1,9}")
_SHOWN = 60  # letters of a name in an error


class _Loader(yaml.SafeLoader):
    """A loader of YAML 1.2's plain values. In YAML 1.1, `on: item_id` has the key True, and `010` is 8."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._level = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose the next node.

        Raises:
            yaml.YAMLError: the node is an alias, has a tag, is too deep, or has a lone surrogate.
        """
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        here: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise ComposerError(None, None, "aliases are not read; write it out", here)
        if event.tag is not None:
            raise ComposerError(None, None, "tags are not read; leave it out", here)
        if isinstance(event, yaml.ScalarEvent) and re.search("[\ud800-\udfff]", event.value):
            raise ComposerError(None, None, "half of a character stands alone", here)
        if self._level == MOST_LEVELS:
            raise ComposerError(None, None, f"it is more than {MOST_LEVELS} levels deep", here)
        self._level += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._level -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping whose keys are names.

        Raises:
            yaml.YAMLError: a name is no text, or stands twice.
        """
        lines: dict[str, int] = {}
        for key, value in node.value:
            if key.tag != f"{_TAG}str":
                raise ConstructorError(None, None, "a name must be a text; quote it", key.start_mark)
            if ")" in key.value and value.value == "":
                # In braces, a comma ends a text without quotes, such as an expression with arguments.
                text = f"{key.value[:_SHOWN]!r} has no value; put a text with a comma in quotes"
                raise ConstructorError(None, None, text, key.start_mark)
            if key.value in lines:
                text = f"{key.value[:_SHOWN]!r} stands in line {lines[key.value]}, too; leave one out"
                raise ConstructorError(None, None, text, key.start_mark)
            lines[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*)", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("float", r"[-+]?\.inf|\.nan", list("-+.")),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(rf"^(?:{_pattern})$"), _first)


def _read(text: str) -> tuple[yaml.Node | None, Any]:
    """Return the root node of a document, and its value.

    Raises:
        yaml.YAMLError, ValueError, OverflowError: the text is no document.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return node, None if node is None else loader.construct_document(node)
    finally:
        loader.dispose()


_NOT_YAML = yaml.YAMLError, ValueError, OverflowError  # PyYAML raises the last two for numbers and characters


def _problem(error: Exception) -> str:
    """The error in one line, with the line of the file if it is known."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    # In braces, YAML takes a question mark for the begin of a name.
    hint = "; put a type that ends with ? in quotes" if "but got '?'" in str(error.problem) else ""
    return f"line {error.problem_mark.line + 1}: {error.problem}{hint}"


class PipelineText:
    """A pipeline file that has been read.

    Raises:
        ConfigError: the file cannot be read, or is no mapping in YAML.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                text = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"{path}: cannot read the pipeline file: {error.strerror}") from error
        if len(text) > MOST_BYTES:
            raise ConfigError(f"{path}: a pipeline file has {MOST_BYTES:,} bytes at most")
        self.document: Any
        try:
            self._root, self.document = _read(text.decode("utf-8"))
        except _NOT_YAML as error:
            raise ConfigError(f"{path}: not a YAML document: {_problem(error)}") from error
        if not isinstance(self.document, dict):
            raise ConfigError(
                f"{path}: a pipeline file is a mapping with name, streams, relations, steps, tables"
            )

    def line_of(self, field: Sequence[str]) -> int | None:
        """Return the line of a field, counted from 1, or of the innermost part around it that the file has.

        `None` means that the file has no part of it.
        """
        node, line = self._root, None
        for name in field:
            inner = _inner(node, name)
            if inner is None:
                break
            key, node = inner
            line = key.start_mark.line + 1
        return line

    def set(self, assignment: str) -> None:
        """Set a field by an assignment such as `steps.matched.window=10s`, spelled as in a file.

        Raises:
            ConfigError: the text is no assignment, or names a field of a plain value.
        """
        field, equals, written = assignment.partition("=")
        if not equals or not all(names := field.split(".")) or len(names) > MOST_LEVELS:
            raise ConfigError(f"--set {assignment}: write FIELD=VALUE, such as steps.matched.window=10s")
        try:
            _, value = _read(written)
        except _NOT_YAML as error:
            raise ConfigError(f"--set {assignment}: the value is no YAML: {_problem(error)}") from None
        *parents, last = names
        node = self.document
        for number, name in enumerate(parents):
            node = node[int(name)] if _is_item(node, name) else _member(node, name)
            if not isinstance(node, dict | list):
                within = ".".join(parents[: number + 1])
                raise ConfigError(f"--set {assignment}: {within} is {node!r}, which has no fields")
        if isinstance(node, list) and not _is_item(node, last):
            raise ConfigError(
                f"--set {assignment}: there is a list of {len(node)}; name one by 0 to {len(node) - 1}"
            )
        node[int(last) if isinstance(node, list) else last] = value


def _is_item(node: Any, name: str) -> bool:
    return isinstance(node, list) and _ITEM.fullmatch(name) is not None and int(name) < len(node)


def _member(node: Any, name: str) -> Any:
    return node.setdefault(name, {}) if isinstance(node, dict) else None


def _inner(node: yaml.Node | None, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the nodes of a member's name and value, or the node of a list item twice; `None` without any."""
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == name), None)
    if isinstance(node, yaml.SequenceNode) and _ITEM.fullmatch(name) and int(name) < len(node.value):
        item = node.value[int(name)]
        return item, item
    return None
