"""An input of a join, as far as it bounds state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta


PUNCTUATIONS = "punctuations"
BY_ROWS = ("unique keys", "clusters", "closing rule")


@dataclass(frozen=True)
class Input:
    """One side of the join, or the one stream, as far as state is concerned.

    Args:
        name: the stream, or the join whose results are a derived stream.
        window: the event time for which its rows stay joinable; `None` is for ever.
        window_field: the field that has the window.
        closes: how it closes keys, such as by punctuations; `None` if it closes none.
        declared: the columns of `punctuated_on`; for a derived stream, those of the key.
        preserved: whether its rows are results even without a partner.
        on: the columns of the key.
        without_punctuations: the reason why it closes no key, if it closes none.
        mend_punctuations: the change of the file by which it closes keys; empty if no change does.
        stuck: the reason why its progress does not move; `None` if it does.
        mends_stuck: the changes of the file, each of which alone would let it move.
    """

    name: str
    window: timedelta | None
    window_field: str
    closes: str | None
    declared: tuple[str, ...]
    preserved: bool
    on: tuple[str, ...]
    without_punctuations: str
    mend_punctuations: str
    stuck: str | None = None
    mends_stuck: tuple[str, ...] = ()

    @property
    def punctuated(self) -> bool:
        """True if its punctuations may name keys."""
        return set(self.on) <= set(self.declared)

    @property
    def names_keys(self) -> bool:
        """True if it closes keys by their names, which are remembered then."""
        return self.punctuated or self.closes in BY_ROWS

    @property
    def mend_window(self) -> str:
        """The change of the file by which its rows leave."""
        return f"set {self.window_field}"


def without(inputs: Sequence[Input], one: Input) -> list[Input]:
    """Return all inputs but one."""
    return [each for each in inputs if each is not one]
