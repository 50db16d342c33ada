"""A bound of state: the events that free it, and the bound in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from endmark.pipeline.duration_words import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Bound:
    """The events that free state, once all of them have happened.

    Args:
        closed_by: the streams that must close the key.
        means: how each of them closes it, such as `punctuations`; as long as `closed_by`.
        on: the columns of the key.
        window_seconds: event time for which a row stays joinable; `None` if time does not matter.
        progress_of: the streams whose progress leaves that window.
    """

    closed_by: tuple[str, ...] = ()
    means: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    window_seconds: float | None = None
    progress_of: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = []
        if self.closed_by:
            *others, last = zip(map(possessive, self.closed_by), self.means, strict=True)
            # Streams that close the key by the same means share the word for it.
            closing = [owner if means == last[1] else f"{owner} {means}" for owner, means in others]
            parts.append(f"{listed([*closing, ' '.join(last)])} on {', '.join(self.on)}")
        if self.window_seconds is not None:
            duration = in_words(timedelta(seconds=self.window_seconds))
            owners = listed([possessive(name) for name in self.progress_of])
            parts.append(f"{self._wait} {duration} after {owners} progress")
        return " with ".join(parts)

    @property
    def _wait(self) -> str:
        return "window"


class Forgetting(Bound):
    """The bound of keys and values that are forgotten: progress since they were closed or seen."""

    @property
    def _wait(self) -> str:
        return "forgetting them"


class Passing(Bound):
    """The bound of groups by a derived time: the progress of a stream passes their time."""

    def __str__(self) -> str:
        return f"{listed([possessive(name) for name in self.progress_of])} progress past {', '.join(self.on)}"


def least(bounds: list[Bound]) -> tuple[Bound, ...]:
    """Return the bounds that ask for nothing beyond another one; those of few events come first."""
    found: list[Bound] = []
    for bound in sorted(bounds, key=lambda each: bool(each.closed_by) + bool(each.progress_of)):
        if not any(_implies(bound, other) for other in found):
            found.append(bound)
    return tuple(found)


def _implies(bound: Bound, other: Bound) -> bool:
    """Return whether the events of one bound include those of another one."""
    same_window = not other.progress_of or bound.window_seconds == other.window_seconds
    return (
        set(other.closed_by) <= set(bound.closed_by)
        and set(other.progress_of) <= set(bound.progress_of)
        and same_window
    )


def listed(parts: Sequence[str]) -> str:
    """Return some words as a list in a sentence, such as `a, b and c`."""
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") else f"{name}'s"
