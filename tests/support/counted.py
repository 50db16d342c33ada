"""Rows as a `Counter` takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def counted(values: Iterable[Any]) -> tuple[Any, ...]:
    """A row, in which what is an array is a tuple."""
    return tuple(tuple(each) if isinstance(each, list) else each for each in values)
