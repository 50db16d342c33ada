"""Durations in words, for whoever reads a bound or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))


def in_words(duration: timedelta) -> str:
    """Return the exact duration in the longest unit of which it is a whole number, or else in seconds.

    >>> from datetime import timedelta
    >>> in_words(timedelta(days=7)), in_words(timedelta(seconds=1.5))
    ('7 days', '1.5 s')
    """
    seconds = duration.total_seconds()
    for unit, length in _UNITS:
        if seconds and seconds % length == 0:
            count = int(seconds // length)
            return f"{count:,} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:f}".rstrip("0").rstrip(".") + " s"
