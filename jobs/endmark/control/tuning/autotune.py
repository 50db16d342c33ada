"""Autotune: hill climbing over knobs, one at a time, by the cost of past batches.

A move doubles or halves a knob. Autotune watches the next batches and takes the move back unless it helped.
A move helps if a row costs at least 10% less. A move that gives memory back may cost up to 3% more. These
margins keep noise from moving a knob. A move that did not help rests, and rests longer each time. A turn by
anybody else ends the trial, stays in force, and stops autotune for a while.

A move depends on nothing but past batches and their turns. The ops database keeps both, so a job that starts
again goes on where the job before it stopped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from endmark.metrics import Samples

WHO = "autotune"
# These count batches with rows.
WATCHED = 6  # batches in a window; their median counts, since one batch may be slow for any reason
SETTLING = 2  # batches left out after a move, while pages are cut anew and a cache fills
ANSWERED = 5  # batches after which a move that no batch has read is considered again
RESTING = 50  # batches for which a move that did not help rests; twice as many each time
YIELDING = 50  # batches without a move after a turn by anybody else
HELPS = 0.10  # share of a row's cost that a move must save
FREE = 0.03  # share of a row's cost that a move may add if it gives memory back
SHARE = 0.02  # share of the batches' time below which a knob is not worth tuning
ALIKE = 2.0  # costs are not compared if the rows of a batch differ by more than this factor


@dataclass(frozen=True)
class Spent:
    """The cost of a batch for one knob.

    Args:
        seconds: the seconds of the work that the knob changes.
        came: the rows that came in the batch.
        waiting: the rows that wait when the batch ends, those of earlier batches included.
    """

    seconds: float
    came: float
    waiting: float = 0.0


@dataclass(frozen=True)
class Tuned:
    """A knob that is tuned within bounds.

    Args:
        name: the knob's name.
        least: the smallest value that is tried.
        most: the greatest value that is tried.
        takes_memory: whether a greater value takes more memory. Then a smaller value need not save time.
        spent: returns the cost of a batch for this knob, given the batch's samples.
    """

    name: str
    least: int
    most: int
    takes_memory: bool
    spent: Callable[[Samples], Spent]


@dataclass(frozen=True)
class ReadTurn:
    """A turn that a batch has read.

    Args:
        name: the knob's name.
        value: the new value; a refused one may be of any type.
        by: the name of whoever turned the knob.
        refused: whether the job refused the turn.
    """

    name: str
    value: Any
    by: str
    refused: bool = False


@dataclass(frozen=True)
class Move:
    """A knob to turn, its new value, and the reason in words and figures."""

    name: str
    value: int
    why: str


@dataclass(frozen=True)
class _Seen:
    """One batch: its seconds for a knob, the rows that came, and the rows that it answered."""

    seconds: float
    came: float
    answered: float


@dataclass(frozen=True)
class _Cost:
    """Medians over a window: seconds for a row that was answered, and rows that came in a batch."""

    row: float
    rows: float

    def __str__(self) -> str:
        return f"{self.row * 1e6:.3g} µs"


@dataclass(frozen=True)
class _Trial:
    name: str
    before: int
    value: int
    cost: _Cost

    @property
    def grows(self) -> bool:
        return self.value > self.before


@dataclass
class Autotune:
    """The tuner of one job's knobs.

    Args:
        tuned: the knobs.
        values: the value of each knob before the first batch.
    """

    tuned: Sequence[Tuned]
    values: dict[str, Any]
    _count: int = 0
    _skip: int = 0
    _yields_until: int = 0
    _asked_at: int | None = None
    _trial: _Trial | None = None
    _window: deque[tuple[float, dict[str, _Seen]]] = field(default_factory=lambda: deque(maxlen=WATCHED))
    _rests: dict[tuple[str, bool], int] = field(default_factory=dict)  # the batch until which a move rests
    _failed: dict[tuple[str, bool], int] = field(default_factory=dict)  # how often a move did not help
    _waiting: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._order = [(each.name, grows) for each in self.tuned for grows in (True, False)]
        self._by_name = {each.name: each for each in self.tuned}

    def seen(self, samples: Samples, turns: Sequence[ReadTurn]) -> Move | None:
        """Take the samples of a batch and the turns that it has read; return the move to make now, if any."""
        for turn in turns:
            self._heard(turn)
        spent = {each.name: self._seen(each.name, each.spent(samples)) for each in self.tuned}
        if not any(one.came > 0 for one in spent.values()):
            return None
        self._count += 1
        if self._skip > 0:
            self._skip -= 1
            return None
        self._window.append((samples.get("compute_seconds", 0.0), spent))
        if len(self._window) < WATCHED or self._count < self._yields_until:
            return None
        if self._asked_at is not None and self._count < self._asked_at + ANSWERED:
            return None
        move = self._candidate() if self._trial is None else self._judged(self._trial)
        self._asked_at = None if move is None else self._count
        return move

    def _seen(self, name: str, spent: Spent) -> _Seen:
        before = self._waiting.get(name, 0.0)
        self._waiting[name] = spent.waiting
        return _Seen(spent.seconds, spent.came, spent.came + before - spent.waiting)

    def _heard(self, turn: ReadTurn) -> None:
        mine = turn.by == WHO and turn.name in self._by_name
        if turn.refused:
            # Anybody may sign as autotune, and a refused value may be of any type.
            if mine and isinstance(turn.value, int):
                self._rest(turn.name, grows=turn.value > self.values[turn.name])
            return
        before, trial = self.values.get(turn.name), self._trial
        self.values[turn.name] = turn.value
        self._trial, self._asked_at, self._skip = None, None, SETTLING
        if not mine:
            self._rests.clear()
            self._failed.clear()
            self._yields_until = self._count + YIELDING
        elif trial is not None and (turn.name, turn.value) == (trial.name, trial.before):
            self._rest(trial.name, grows=trial.grows)
        elif before is not None and (cost := self._cost(turn.name)) is not None:
            self._trial = _Trial(turn.name, before, turn.value, cost)
        self._window.clear()

    def _rest(self, name: str, *, grows: bool) -> None:
        move = name, grows
        times = self._failed[move] = self._failed.get(move, 0) + 1
        self._rests[move] = self._count + RESTING * 2 ** min(times - 1, 6)
        self._order.remove(move)
        self._order.append(move)
        self._asked_at = None

    def _cost(self, name: str) -> _Cost | None:
        """Return the cost of a row over the window; `None` if no row was answered."""
        some = [spent[name] for _, spent in self._window if spent[name].answered > 0]
        if not some:
            return None
        return _Cost(median(one.seconds / one.answered for one in some), median(one.came for one in some))

    def _is_worth_it(self, name: str) -> bool:
        spent = sum(spent[name].seconds for _, spent in self._window)
        return spent > 0 and spent >= SHARE * sum(seconds for seconds, _ in self._window)

    def _candidate(self) -> Move | None:
        for name, grows in self._order:
            knob, value = self._by_name[name], self.values[name]
            to = min(value * 2, knob.most) if grows else max(value // 2, knob.least)
            ready = self._rests.get((name, grows), 0) <= self._count
            if not ready or (to > value) != grows or to == value or not self._is_worth_it(name):
                continue
            if (cost := self._cost(name)) is not None:
                needed = _needed(knob, grows=grows)
                goal = f"saves {needed:.0%}" if needed > 0 else f"costs at most {-needed:.0%} more"
                return Move(name, to, f"a row costs {cost} with {value}; tries whether {to} {goal}")
        return None

    def _judged(self, trial: _Trial) -> Move | None:
        """Return the move that takes a trial back; if the trial helped, return the next move, if any."""
        cost = self._cost(trial.name)
        if cost is None:
            return None
        saved = 1 - cost.row / trial.cost.row
        costs = f"a row costs {cost} with {trial.value}, and cost {trial.cost} with {trial.before}"
        if not trial.cost.rows / ALIKE <= cost.rows <= trial.cost.rows * ALIKE:
            load = f"{cost.rows:.0f} rows a batch instead of {trial.cost.rows:.0f}"
            return Move(trial.name, trial.before, f"{costs}, but with {load}, so they do not compare")
        needed = _needed(self._by_name[trial.name], grows=trial.grows)
        if saved < needed:
            more = f"{abs(saved):.0%} {'less' if saved > 0 else 'more'}"
            goal = f"has to save {needed:.0%}" if needed > 0 else f"may cost {-needed:.0%} more"
            return Move(trial.name, trial.before, f"{costs}: {more}, but it {goal}")
        self._trial = None
        self._failed.pop((trial.name, trial.grows), None)
        self._rests[trial.name, not trial.grows] = self._count + RESTING
        self._order.sort(key=lambda move: move != (trial.name, trial.grows))
        return self._candidate()


def _needed(knob: Tuned, *, grows: bool) -> float:
    """Return the share of its former cost that a row must save."""
    return -FREE if knob.takes_memory and not grows else HELPS


def read_turns(turns: Sequence[Mapping[str, Any]]) -> list[ReadTurn]:
    """Convert the turns of one batch from rows of the ops database, in the order of their records."""
    ordered = sorted(turns, key=lambda turn: (turn["partition"], turn["offset"]))
    return [
        ReadTurn(each["name"], each["value"], each["by"], each["refused"] is not None) for each in ordered
    ]
