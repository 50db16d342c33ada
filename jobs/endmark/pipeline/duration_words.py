"""Durations as texts, for whoever reads a bound or an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))
_UNITS_OF_FILES = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}  # in milliseconds


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


def as_in_files(duration: timedelta) -> str:
    """Return a duration of whole milliseconds as a pipeline file spells it, in the longest unit that fits.

    >>> from datetime import timedelta
    >>> as_in_files(timedelta(days=7)), as_in_files(timedelta(seconds=1.5)), as_in_files(timedelta(0))
    ('7d', '1500ms', '0s')
    """
    milliseconds = round(duration.total_seconds() * 1_000)
    fitting = (unit for unit, size in _UNITS_OF_FILES.items() if milliseconds and milliseconds % size == 0)
    unit = next(fitting, "s")
    return f"{milliseconds // _UNITS_OF_FILES[unit]}{unit}"
