"""Autotune on simulated costs: it finds what is cheap, undoes what is not, and leaves people alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from endmark.control.tuning import autotune
from endmark.control.tuning.autotune import WHO, Autotune, Move, ReadTurn, Spent, Tuned
from endmark.metrics import Samples

PAGES, CACHE = "steps.known.lookup.page_rows", "steps.known.lookup.cache.memory"


def spent(samples: Samples) -> Spent:
    return Spent(samples["seconds"], samples["rows"], samples.get("waiting", 0.0))


def pages(least: int = 16, most: int = 16_384) -> Tuned:
    return Tuned(PAGES, least, most, takes_memory=False, spent=spent)


def cache(least: int = 1, most: int = 1 << 20) -> Tuned:
    return Tuned(CACHE, least, most, takes_memory=True, spent=spent)


class World:
    """A job whose rows cost what a model says of its knobs, with noise.

    `log` has every move beside the number of the batch that read it.
    """

    def __init__(self, tuned: Tuned, value: int, cost: Callable[[int], float], noise: float = 0.0) -> None:
        self.knob = tuned.name
        self.tuner = Autotune([tuned], {tuned.name: value, "steps.matched.memory": None})
        self.value = value
        self.cost = cost
        self.rows = 1000.0
        self.log: list[tuple[int, int, int]] = []
        self.moves: list[Move] = []
        self.batches: list[tuple[Samples, list[ReadTurn]]] = []
        self._noise, self._random = noise, random.Random(7)
        self._coming: list[ReadTurn] = []

    def turn(self, name: str, value: Any) -> None:
        self._coming.append(ReadTurn(name, value, "Ann"))

    def run(self, batches: int) -> None:
        for _ in range(batches):
            factor = 1 + self._random.uniform(-self._noise, self._noise)
            if self._random.random() < self._noise:
                factor *= 10  # a database has such moments
            seconds = self.rows * self.cost(self.value) * factor
            samples = {"seconds": seconds, "rows": self.rows, "compute_seconds": 10 * seconds}
            turns, self._coming = self._coming, []
            self.batches.append((samples, turns))
            move = self.tuner.seen(samples, turns)
            for turn in turns:
                if turn.name == self.knob:
                    self.log.append((len(self.batches), self.value, turn.value))
                    self.value = turn.value
            if move is not None:
                self.moves.append(move)
                self._coming = [ReadTurn(move.name, move.value, WHO)]


def by_size(best: float) -> Callable[[int], float]:
    """Seconds of a row by the size of pages: few large reads, or many small ones."""
    return lambda rows: 1e-5 * (best / rows + rows / best)


@pytest.mark.parametrize("start", [16, 500, 16_384])
@pytest.mark.parametrize("noise", [0.0, 0.04])
def test_a_bad_start_is_left_for_the_best(start: int, noise: float) -> None:
    world = World(pages(), start, by_size(500), noise)
    world.run(250)

    assert 250 <= world.value <= 1024
    assert world.cost(world.value) < 1.3 * world.cost(500)


def test_a_move_that_does_harm_is_undone_and_not_made_again_soon() -> None:
    world = World(pages(), 500, by_size(500))
    world.run(autotune.RESTING)

    turned = [(before, after) for _, before, after in world.log]
    assert turned == [(500, 1000), (1000, 500), (500, 250), (250, 500)]
    assert [move.why for move in world.moves[:2]] == [
        "a row costs 20 µs with 500; tries whether 1000 saves 10%",
        "a row costs 25 µs with 1000, and cost 20 µs with 500: 25% more, but it has to save 10%",
    ]
    watched = world.log[1][0] - world.log[0][0]
    assert autotune.WATCHED < watched <= autotune.WATCHED + autotune.SETTLING + 1
    world.run(400)
    assert 4 < len(world.log) <= 16
    assert world.value == 500


def test_noise_moves_nothing_for_good() -> None:
    """Whatever the size costs the same."""
    world = World(pages(), 500, lambda _: 1e-5, noise=0.04)
    world.run(400)

    assert 4 <= len(world.log) < 20
    for (_, before, _), (_, _, after) in zip(world.log[::2], world.log[1::2], strict=False):
        assert before == after == 500


def test_memory_has_to_pay() -> None:
    """A cache grows while that saves a tenth, and gives back what saves nothing."""

    def misses(memory: int) -> float:
        return 1e-5 * max(0.2, 1 - memory / 1000)

    small, large = World(cache(), 100, misses), World(cache(), 100_000, misses)
    for world in (small, large):
        world.run(400)

    assert 800 <= small.value <= 1600
    assert 700 <= large.value < 3200


def test_bounds_are_kept() -> None:
    up, down = World(pages(100, 900), 500, lambda rows: 1 / rows), World(pages(100, 900), 500, float)
    for world in (up, down):
        world.run(200)
    visited = [{value for _, *turned in world.log for value in turned} for world in (up, down)]
    assert visited == [{500, 900, 450}, {500, 900, 250, 125, 100, 200}]


def test_the_way_back_rests_behind_a_move_that_helped() -> None:
    world = World(pages(100, 900), 500, lambda rows: 1 / rows)
    world.run(autotune.RESTING)
    assert [turned for _, *turned in world.log] == [[500, 900]]
    world.run(autotune.RESTING)
    assert [turned for _, *turned in world.log[1:]] == [[900, 450], [450, 900]]


def test_the_turn_of_a_person_wins() -> None:
    """It ends a trial, is not touched for a while, and is where the next move starts; so is any other's."""
    world = World(pages(), 16, by_size(500))
    world.run(autotune.WATCHED + 2)
    assert world.value == 32  # on trial
    world.turn(PAGES, 5000)
    world.run(autotune.YIELDING)
    assert [after for _, _, after in world.log] == [32, 5000]
    world.run(autotune.WATCHED)
    assert world.log[2][1] == 5000

    before = len(world.log)
    world.turn("steps.matched.memory", 7)
    world.run(autotune.YIELDING - 2)
    assert len(world.log) <= before + 1  # what was on its way


def test_costs_at_other_loads_are_not_compared() -> None:
    world = World(pages(), 100, by_size(500))
    world.run(autotune.WATCHED + 1)
    world.rows = 5000.0
    world.run(autotune.WATCHED + autotune.SETTLING + 2)

    assert [after for _, _, after in world.log] == [200, 100]
    assert "but with 5000 rows a batch instead of 1000, so they do not compare" in world.moves[1].why


def test_rows_that_wait_are_not_answered() -> None:
    """In batches that read for a time, the rows answered count, not the rows that come."""
    tuner = Autotune([pages()], {PAGES: 100})
    waiting = 0.0
    coming: list[ReadTurn] = []
    whys: list[str] = []
    for _ in range(40):
        waiting += 100 - min(100, tuner.values[PAGES] / 10)
        samples = {"seconds": 1.0, "rows": 100.0, "waiting": waiting, "compute_seconds": 1.0}
        move = tuner.seen(samples, coming)
        coming = [] if move is None else [ReadTurn(move.name, move.value, WHO)]
        whys += [] if move is None else [move.why]

    assert whys[0].startswith("a row costs 1e+05 µs with 100")
    assert tuner.values[PAGES] >= 800


def test_what_costs_next_to_nothing_is_left_alone() -> None:
    tuner = Autotune([pages()], {PAGES: 16})
    moves = [tuner.seen({"seconds": 0.01, "rows": 10.0, "compute_seconds": 1.0}, []) for _ in range(50)]
    assert moves == [None] * 50


def test_batches_without_rows_do_not_count() -> None:
    tuner = Autotune([pages()], {PAGES: 16})
    idle = [tuner.seen({"seconds": 0.0, "rows": 0.0, "compute_seconds": 1.0}, []) for _ in range(50)]
    assert idle == [None] * 50


def test_who_saw_the_same_does_the_same() -> None:
    """So a job that starts again goes on, in the middle of a trial, too."""
    world = World(pages(), 16, by_size(500))
    for _ in range(40):
        world.run(1)
        again = Autotune([pages()], {PAGES: 16, "steps.matched.memory": None})
        found = [again.seen(samples, turns) for samples, turns in world.batches]
        assert [move for move in found if move is not None] == world.moves


def test_a_refused_move_is_not_made_again_soon() -> None:
    world = World(pages(), 500, by_size(500))
    world.run(autotune.WATCHED)
    [move] = world.moves
    samples, refused = world.batches[-1][0], ReadTurn(move.name, move.value, WHO, refused=True)
    later = [world.tuner.seen(samples, [refused] if number == 0 else []) for number in range(9)]
    assert {each.value for each in later if each is not None} == {250}


@pytest.mark.parametrize("value", [None, "many", 2.5, [500], {"page_rows": 1}])
def test_what_others_sign_as_autotune_and_is_refused_moves_nothing(value: Any) -> None:
    """Nobody checks `by`, so a refused value may be of any type."""
    world = World(pages(), 500, by_size(500))
    world.run(autotune.WATCHED)
    [move] = world.moves
    samples, refused = world.batches[-1][0], ReadTurn(move.name, value, WHO, refused=True)
    assert world.tuner.seen(samples, [refused]) is None
    assert world.tuner.seen(samples, [ReadTurn(move.name, move.value, WHO)]) is None
