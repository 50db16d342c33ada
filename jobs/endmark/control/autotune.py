"""Autotune: hill climbing over knobs, one at a time, by the cost of past batches.

A move doubles or halves a knob. It is watched for some batches and taken back unless it helped: a row has to
cost clearly less, or no more if the move gives memory back, which is the hysteresis that keeps noise from
moving anything. What did not help rests, longer each time. A turn by anybody else ends what is being tried,
holds, and is left alone for a while.

All that counts is in the batches, which say what was turned: fed with the same ones, it does the same, so a
job that starts again goes on from those that it finds recorded.
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
# Batches, of those with rows.
WATCHED = 6  # of which the middle one counts, since one may be slow for any reason
SETTLING = 2  # after a move: pages are cut anew, a cache fills
ANSWERED = 5  # until a move that no batch has read is thought of again
RESTING = 50  # of a move that did not help; twice as many each time
YIELDING = 50  # after a turn by anybody else
HELPS = 0.10  # of what a row costs
FREE = 0.03
SHARE = 0.02  # of a batch's time, below which nothing is to be won
ALIKE = 2.0  # times as many rows in a batch as before say nothing of the knob


@dataclass(frozen=True)
class Spent:
    """The cost of a batch: seconds, for rows that have come, of which so many wait in the end."""

    seconds: float
    came: float
    waiting: float = 0.0


@dataclass(frozen=True)
class Tuned:
    """A knob that is tuned within bounds.

    Args:
        name, least, most: of the knob.
        takes_memory: more of it takes more, so that more has to pay, and less need not.
        spent: what a batch spent that hangs on it.
    """

    name: str
    least: int
    most: int
    takes_memory: bool
    spent: Callable[[Samples], Spent]


@dataclass(frozen=True)
class Told:
    """A turn that a batch has read."""

    name: str
    value: Any
    by: str
    refused: bool = False


@dataclass(frozen=True)
class Move:
    """A knob to be turned, and why, in words and figures."""

    name: str
    value: int
    why: str


@dataclass(frozen=True)
class _Seen:
    """One batch: its seconds, the rows that came, and the rows that were answered in these seconds."""

    seconds: float
    came: float
    answered: float


@dataclass(frozen=True)
class _Cost:
    """Seconds of a row that was answered, and rows that come in a batch; the middle ones."""

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
    _rests: dict[tuple[str, bool], int] = field(default_factory=dict)  # until which batch
    _failed: dict[tuple[str, bool], int] = field(default_factory=dict)  # how often
    _waiting: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._order = [(each.name, grows) for each in self.tuned for grows in (True, False)]
        self._by_name = {each.name: each for each in self.tuned}

    def seen(self, samples: Samples, turns: Sequence[Told]) -> Move | None:
        """Take the figures of a batch; return the move to make now, if any."""
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

    def _heard(self, turn: Told) -> None:
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
        """Over the window; `None` if no row was answered."""
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
        """Takes a trial back unless it helped."""
        cost = self._cost(trial.name)
        if cost is None:
            return None
        saved = 1 - cost.row / trial.cost.row
        told = f"a row costs {cost} with {trial.value}, and cost {trial.cost} with {trial.before}"
        if not trial.cost.rows / ALIKE <= cost.rows <= trial.cost.rows * ALIKE:
            load = f"{cost.rows:.0f} rows a batch instead of {trial.cost.rows:.0f}"
            return Move(trial.name, trial.before, f"{told}, but of {load}, which says nothing of it")
        needed = _needed(self._by_name[trial.name], grows=trial.grows)
        if saved < needed:
            more = f"{abs(saved):.0%} {'less' if saved > 0 else 'more'}"
            goal = f"has to save {needed:.0%}" if needed > 0 else f"may cost {-needed:.0%} more"
            return Move(trial.name, trial.before, f"{told}: {more}, but it {goal}")
        self._trial = None
        self._failed.pop((trial.name, trial.grows), None)
        self._rests[trial.name, not trial.grows] = self._count + RESTING
        self._order.sort(key=lambda move: move != (trial.name, trial.grows))
        return self._candidate()


def _needed(knob: Tuned, *, grows: bool) -> float:
    """Return the share of its former cost that a row must save."""
    return -FREE if knob.takes_memory and not grows else HELPS


def told(turns: Sequence[Mapping[str, Any]]) -> list[Told]:
    """Return turns as values of their own, given the rows of the ops database."""
    ordered = sorted(turns, key=lambda turn: (turn["partition"], turn["offset"]))
    return [Told(each["name"], each["value"], each["by"], each["refused"] is not None) for each in ordered]
