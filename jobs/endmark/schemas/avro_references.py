"""Schemas of Avro that refer to schemas of other subjects, as one schema that declares all its types.

A registry keeps such a schema without the types that it refers to. Confluent calls them schema references.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_DECLARING = ("record", "error", "enum", "fixed")
_INNER = {"array": "items", "map": "values"}


def inlined(text: str, others: Iterable[str]) -> str:
    """Return a schema in which each type of another schema is declared where it is first named.

    Args:
        text: the schema, as JSON.
        others: the schemas that it refers to, and those that they refer to.

    Raises:
        ValueError: a text is no JSON.
        RecursionError: the schemas are nested too deep.
    """
    documents = [json.loads(each) for each in others]
    declared = {_full_of(each, ""): each for each in documents if _is_declaration(each)}
    return json.dumps(_Inliner(declared).node(json.loads(text), ""))


class _Inliner:
    """Goes through a schema in the order in which a parser does.

    Args:
        others: the declarations of other schemas, by full name. One is taken out when it has its place.
    """

    def __init__(self, others: dict[str, Any]) -> None:
        self._others = others
        self._known: set[str] = set()  # the full names of types that have their place

    def node(self, node: Any, namespace: str) -> Any:
        """Return a part of the schema, given the namespace that it stands in."""
        if isinstance(node, str):
            # As Java's parser does it, a name without a namespace stands for the type without one if the
            # namespace around it has none of this name.
            full = _full(node, namespace)
            other = self._others.pop(full if full in self._known | self._others.keys() else node, None)
            return node if other is None else self.node(other, "")
        if isinstance(node, list):
            return [self.node(each, namespace) for each in node]
        if not isinstance(node, dict) or "type" not in node:
            return node
        if _is_declaration(node):
            return self._declaration(node, namespace)
        key = _INNER.get(str(node["type"]), "type")
        return {**node, key: self.node(node.get(key), namespace)}

    def _declaration(self, node: dict[str, Any], namespace: str) -> dict[str, Any]:
        full = _full_of(node, namespace)
        self._known.add(full)
        within, _, name = full.rpartition(".")
        found = {**node, "name": name, "namespace": within}
        if isinstance(fields := node.get("fields"), list):
            found["fields"] = [
                {**each, "type": self.node(each.get("type"), within)} if isinstance(each, dict) else each
                for each in fields
            ]
        return found


def _is_declaration(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") in _DECLARING and isinstance(node.get("name"), str)


def _full_of(node: dict[str, Any], namespace: str) -> str:
    return _full(node["name"], str(node.get("namespace", namespace)))


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
