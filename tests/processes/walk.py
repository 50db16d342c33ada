"""A random walk over all faults: several of them at once, in an order that nobody has thought of."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from kafka.errors import KafkaError

from endmark.errors import MissingPartError
from processes.campaign import ended, fitting
from processes.case import HEALED_SECONDS, Outcome, caught_up, settled
from processes.fault import Fault, Marker
from processes.faults import FAULTS
from processes.oracle import Verdict
from processes.rig import START_SECONDS, Rig

_MOST_AT_ONCE = 3
# Weights beside those of the faults, of which there are about thirty. Without the last one, a walk of 867
# actions had no moment without faults.
_REST, _HEAL, _HEAL_ALL = 2.0, 4.0, 1.0
_PATIENCE = 15.0


@dataclass
class _Active:
    """A fault that is there."""

    name: str
    context: AbstractContextManager[None]
    marker: Marker


@dataclass
class Walk:
    """A walk on a rig.

    Attributes:
        actions: each action that was done.
        landed: how often each fault was there.
        missed: how often each fault was injected, and was not there: another one was in its way.
        judged: how often nothing was broken, the job caught up, and its tables were right.
    """

    rig: Rig
    seed: int
    within: float = HEALED_SECONDS
    actions: list[str] = field(default_factory=list)
    landed: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    _active: list[_Active] = field(default_factory=list)
    _verdict: Verdict = field(default_factory=Verdict)  # the last one before the end

    def run(self, length: int) -> Outcome:
        """Do so many actions, heal everything, and judge the rig."""
        chance, began = random.Random(f"walk {self.rig.name} {self.seed}"), time.monotonic()
        self.rig.patience = _PATIENCE
        self.rig.feed.resume()
        try:
            assert self.rig.wait(lambda: self.rig.batches() > 0, START_SECONDS), "the job does not begin"
            try:
                for _ in range(length):
                    ends = len(self.rig.ends)
                    self._act(chance)
                    for end in self.rig.ends[ends:]:
                        print(f"    the job ended: {end}", flush=True)
            finally:
                self._heal_all()
            recovered = caught_up(self.rig, self.within)
            judged = settled(self.rig, self.within)
            last = ended(self.rig)
        except AssertionError as error:
            ended_early = f"after {self.actions[-6:]}: {error}"
            return self._outcome(began, (ended_early,), self._verdict.lost, self._verdict.doubled)
        wrong = (*judged.wrong, *last.wrong, *self._wordless())
        return self._outcome(began, wrong, judged.lost, judged.doubled, recovered)

    def _outcome(
        self,
        began: float,
        wrong: tuple[str, ...],
        lost: int,
        doubled: int,
        recovered: float | None = None,
    ) -> Outcome:
        seen = {
            "actions": len(self.actions),
            "landed": dict(self.landed),
            "missed": dict(self.missed),
            "ends": len(self.rig.ends),
            "judged": self.judged,
        }
        seconds = round(time.monotonic() - began, 1)
        return Outcome(self.landed.total() > 0, wrong, lost, doubled, recovered, seconds, seen)

    def _act(self, chance: random.Random) -> None:
        taken = {part for active in self._active for part in FAULTS[active.name].parts}
        names = [name for name in fitting(self.rig.name, list(FAULTS)) if _may_come(FAULTS[name], taken)]
        names = names if len(self._active) < _MOST_AT_ONCE else []
        weights = [FAULTS[name].weight for name in names]
        others = {"rest": _REST, "heal": _HEAL * len(self._active), "heal all": _HEAL_ALL}
        choice = chance.choices([*others, *names], [*others.values(), *weights])[0]
        self.actions.append(choice)
        print(f"  {choice}", flush=True)
        if choice == "heal":
            self._heal(chance.randrange(len(self._active)))
        elif choice == "heal all":
            self._judge()
        elif choice == "rest":
            self.rig.stay(chance.uniform(1, 5))
        else:
            marker = Marker()
            context = FAULTS[choice].inject(self.rig, chance, marker)
            try:
                context.__enter__()
            except (ProcessLookupError, MissingPartError, KafkaError):  # another fault is in the way
                self.missed[choice] += 1
                return
            self._active.append(_Active(choice, context, marker))
            self.rig.stay(chance.uniform(0.5, 3))

    def _judge(self) -> None:
        """Heal everything, and require that the job catches up and that its tables are right."""
        self._heal_all()
        caught_up(self.rig, self.within)
        self._verdict = settled(self.rig, self.within)
        assert not self._verdict.wrong, self._verdict.wrong
        self.rig.feed.resume()
        self.judged += 1

    def _heal_all(self) -> None:
        while self._active:
            self._heal(0)

    def _heal(self, number: int) -> None:
        active = self._active.pop(number)
        active.context.__exit__(None, None, None)
        (self.landed if active.marker.landed else self.missed)[active.name] += 1

    def _wordless(self) -> list[str]:
        told = [end for end in self.rig.ends if end.code > 0 and not end.error.strip("[]'\" ")]
        return [f"the job ended without a word: {told}"] if told else []


def _may_come(fault: Fault, taken: set[str]) -> bool:
    return fault.weight > 0 and fault.refused is None and not fault.parts & taken
