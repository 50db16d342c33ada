"""The state that a pipeline keeps for one input, with its bounds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from endmark.pipeline.boundedness.bound import Bound, listed

CLOSED_KEYS = "closed keys"
SEEN_VALUES = "seen values"
GROUPS = "groups"
_TOLD = 3  # the bounds that a text names; two streams have no more


@dataclass(frozen=True)
class State:
    """The state that a pipeline keeps for one input.

    Args:
        input: a stream, or an aggregate.
        holds: `rows` (which includes what a semi join remembers of the rows it has put out), `closed keys`,
            `seen values` (of which later rows are duplicates) or `groups`.
        bounded_by: the bounds of this state, each of which is enough; empty if nothing bounds it.
        note: the reason why nothing bounds it, or the group to which the bounds do not apply.
        mends: changes of the pipeline file, each of which alone would bound it.
        declared: whether the pipeline file asks for it, since a table has the rows so far of all groups.
    """

    input: str
    holds: str
    bounded_by: tuple[Bound, ...] = ()
    note: str | None = None
    mends: tuple[str, ...] = ()
    declared: bool = False

    @property
    def name(self) -> str:
        """The name for people, such as `bids rows`."""
        return f"{self.input} {self.holds}"

    @property
    def facts(self) -> dict[str, Any]:
        """The state as values for JSON."""
        facts = asdict(self)
        del facts["mends"]
        return facts

    @property
    def bound(self) -> str:
        """The bounds in words, or the reason why there is none."""
        if not self.bounded_by:
            return self.note or "" if self.declared else f"unbounded, {self.note}"
        found = listed([f"by {bound}" for bound in self.bounded_by[:_TOLD]])
        more = len(self.bounded_by) - _TOLD
        untold = f", or in {more} more way{'s' if more > 1 else ''}" if more > 0 else ""
        return f"bounded {found}{untold}{self.besides}"

    @property
    def besides(self) -> str:
        """The part that the bounds leave out, as the end of a sentence; empty if there is none."""
        return f"; {self.note}" if self.bounded_by and self.note else ""

    def __str__(self) -> str:
        return f"{self.name}: {self.bound}"
