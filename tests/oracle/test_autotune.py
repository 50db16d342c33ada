"""Autotune against what it promises, on costs without noise: so each move that stays has paid."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from endmark.control.tuning.autotune import WHO, Autotune, ReadTurn, Spent, Tuned
from endmark.metrics import Samples
from support.cases import cases

NAME = "steps.matched.purge_every"
LEAST, MOST = 1, 64
YIELDS = 50  # batches after a turn by a person
RESTS = 50  # after a move that was undone, until another that way
PAYS, MAY_COST = 0.10, 0.03
BATCHES = 160


def spent(samples: Samples) -> Spent:
    return Spent(samples["seconds"], samples["rows"])


@dataclass
class Job:
    """A job of which a row costs what its knob says; `turns` has batch, who, and values before and after."""

    costs: dict[int, float]
    value: int
    takes_memory: bool
    turns: list[tuple[int, str, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._past: list[tuple[Samples, list[ReadTurn]]] = []
        self._first = self.value
        self.tuner = self._tuner()

    def _tuner(self) -> Autotune:
        tuned = Tuned(NAME, LEAST, MOST, takes_memory=self.takes_memory, spent=spent)
        return Autotune([tuned], {NAME: self._first})

    def restart(self) -> None:
        """The tuner goes on from what is recorded."""
        self.tuner = self._tuner()
        for past in self._past:
            self.tuner.seen(*past)

    def has_paid(self, before: int, after: int) -> bool:
        """Return whether a move has to stay."""
        gives_back = self.takes_memory and after < before
        return self.costs[after] / self.costs[before] <= (1 + MAY_COST if gives_back else 1 - PAYS) + 1e-9

    def run(self, people: dict[int, ReadTurn], restarted: set[int]) -> None:
        sent: list[ReadTurn] = []
        for number in range(BATCHES):
            read, sent = sent, []
            for turn in [*read, *([people[number]] if number in people else [])]:
                if not turn.refused:
                    self.turns.append((number, turn.by, self.value, turn.value))
                    self.value = turn.value
            turns = [*read, *([people[number]] if number in people else [])]
            seconds = 1000 * self.costs[self.value]
            batch = {"seconds": seconds, "rows": 1000.0, "compute_seconds": 2 * seconds}, turns
            move = self.tuner.seen(*batch)
            self._past.append(batch)
            if number in restarted:
                self.restart()
            if move is not None:
                assert LEAST <= move.value <= MOST
                sent = [ReadTurn(move.name, move.value, WHO)]


@cases(18)
@given(data=st.data())
def test_what_stays_has_paid_and_people_win(data: st.DataObject) -> None:
    """By half or double each time; more memory has to save as much as any other move, less may cost a little;
    what has not paid is undone, and rests.
    For a while after a person's turn nothing is moved. Whenever the job starts again, it does the same."""
    values = [2**power for power in range(7)]
    dear = data.draw(st.lists(st.sampled_from([1.0, 1.02, 1.08, 1.3, 2.0]), min_size=7, max_size=7))
    costs = dict(zip(values, dear, strict=True))
    start, takes_memory = data.draw(st.sampled_from(values)), data.draw(st.booleans())
    numbers = st.integers(0, BATCHES - 1)
    people = {
        number: ReadTurn(NAME, data.draw(st.sampled_from(values)), "Ann")
        for number in data.draw(st.sets(numbers, max_size=2))
    }
    job = Job(costs, start, takes_memory)
    job.run(people, set())
    again = Job(costs, start, takes_memory)
    again.run(people, data.draw(st.sets(numbers, max_size=4)))

    assert again.turns == job.turns
    trial: tuple[int, int, int] | None = None
    undone: dict[bool, int] = {}  # by whether it made more of it
    for number, by, before, after in job.turns:
        if by != WHO:
            trial = None
            undone.clear()
            continue
        assert after in (before * 2, before // 2)
        assert not [other for other in people if other < number < other + YIELDS]
        if trial is not None and not job.has_paid(*trial[1:]):
            assert (after, before) == trial[1:]
            undone[after < before] = number
            trial = None
            continue
        assert number >= undone.get(after > before, -RESTS) + RESTS
        assert trial is None or (after, before) != trial[1:] or number > trial[0] + YIELDS
        trial = number, before, after


@cases(18)
@given(data=st.data())
def test_a_valley_is_walked_down(data: st.DataObject) -> None:
    """Where each step towards one value pays, that value is found and held, from wherever it starts."""
    values = [2**power for power in range(7)]
    best = data.draw(st.integers(0, 6))
    costs = {value: 1.5 ** abs(power - best) for power, value in enumerate(values)}
    job = Job(costs, data.draw(st.sampled_from(values)), data.draw(st.booleans()))
    job.run({}, set())

    held: dict[int, int] = {}
    value = job.turns[0][2] if job.turns else job.value
    changes = {number: after for number, _, _, after in job.turns}
    for number in range(BATCHES):
        value = changes.get(number, value)
        held[value] = held.get(value, 0) + 1
    assert max(held, key=lambda each: held[each]) == values[best]
