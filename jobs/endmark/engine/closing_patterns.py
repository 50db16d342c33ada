"""The announced patterns of a stage that close keys of the next one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.operators.stream_join.pattern_reports import ALL_VALUES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class ClosingPatterns:
    """Reads patterns over columns of results as patterns over columns of a key.

    Args:
        equals: the columns of results that patterns may restrict, each with the name of the column of the key
            that it equals in every result. A pattern on such columns alone closes the keys that it matches.
            For a derived stream, other columns that promises restrict are there, too, under their own names.
        present: the columns of results that are null in no result. A pattern of all values of such columns
            closes every key, since no result comes any more.
    """

    equals: Mapping[str, str]
    present: frozenset[str]

    def read(self, text: str) -> dict[str, Any] | None:
        """Return the patterns of a text in JSON by columns of the key.

        Returns:
            No patterns match every key. `None` if the text restricts another column, and so closes no key.
        """
        patterns = {
            name: pattern
            for name, pattern in json.loads(text).items()
            if not (name in self.present and pattern == ALL_VALUES)
        }
        if not patterns.keys() <= self.equals.keys():
            return None
        return {self.equals[name]: pattern for name, pattern in patterns.items()}


def narrowed(readers: Sequence[ClosingPatterns], report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements of a bucket's report about patterns that close a key for one of some readers."""

    def closes(text: str) -> bool:
        return any(reader.read(text) is not None for reader in readers)

    return {
        "released": {text: by for text, by in report["released"].items() if closes(text)},
        "waiting": [text for text in report["waiting"] if closes(text)],
        "times": {
            column: each
            for column, each in report["times"].items()
            if any(column in reader.equals for reader in readers)
        },
    }
