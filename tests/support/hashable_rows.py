"""Rows that a `Counter` can count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def hashable_row(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values of a row, with a tuple for each list."""
    return tuple(tuple(each) if isinstance(each, list) else each for each in values)
