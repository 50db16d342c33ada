"""Histories of two punctuated streams, drawn from a domain so tiny that things collide."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

from hypothesis import strategies as st

from endmark.punctuation.pattern import Between, Equals, OneOf, Pattern
from endmark_papers.algorithms.contract import Closing, Element, Row, Side

KEYS = range(4)
VALUES = range(-1, 5)  # what a pattern can tell apart: keys, and what lies below and above


class Arrive(NamedTuple):
    """A data row, `gap` time units after the element before it."""

    side: Side
    key: int
    gap: int


class Close(NamedTuple):
    """A punctuation, `gap` time units after the element before it."""

    side: Side
    pattern: Pattern
    gap: int


class Idle(NamedTuple):
    """Both streams pause."""


class Save(NamedTuple):
    """A checkpoint is taken."""


class Crash(NamedTuple):
    """Everything since the last checkpoint is lost and happens again."""


Move = Arrive | Close | Idle | Save | Crash

_RANGES = [
    Between(1, 2),
    Between(None, 1),
    Between(2, None, low_open=True),
    Between(0, 3, low_open=True, high_open=True),
    Between(3, 1),
]
_PATTERNS: list[Pattern] = [
    *(Equals(key) for key in [*KEYS, *KEYS]),
    OneOf(frozenset({0, 2})),
    OneOf(frozenset()),
    *_RANGES,
]
_ROWS = [Arrive(side, key, gap) for key in KEYS for side in Side for gap in (0, 1, 3)]
_CLOSINGS = [Close(side, pattern, gap) for pattern in _PATTERNS for side in Side for gap in (0, 2)]
_OTHERS: list[Move] = [*[Idle()] * 16, *[Save()] * 8, *[Crash()] * 8]
_MOVES: list[Move] = [*_ROWS * 5, *_CLOSINGS, *_OTHERS]

moves = st.lists(st.sampled_from(_MOVES), max_size=30)


def elements(history: list[Move]) -> list[Element | Idle | Save | Crash]:
    """The history with times and serial numbers filled in."""
    time, found = 0, list[Element | Idle | Save | Crash]()
    for serial, move in enumerate(history):
        match move:
            case Arrive(side, key, gap):
                time += gap
                found.append(Row(side, key, time, serial))
            case Close(side, pattern, gap):
                time += gap
                found.append(Closing(side, pattern, time))
            case _:
                found.append(move)
    return found


def from_yaml(steps: list[Any]) -> list[Move]:
    """Moves as a regression file spells them: `left 1`, `right 1 after 3`, `left closes 0 2`,
    `right closes from 1 to 2 after 2`, `idle`, `save`, `crash`."""
    return [_move(str(step).split()) for step in steps]


def to_yaml(history: list[Move]) -> str:
    """A history as lines of a regression file."""
    return "\n".join(f"- {_words(move)}" for move in history)


def _move(words: list[str]) -> Move:
    plain: dict[str, Move] = {"idle": Idle(), "save": Save(), "crash": Crash()}
    if words[0] in plain:
        return plain[words[0]]
    words, gap = (words[:-2], int(words[-1])) if "after" in words else (words, 0)
    if words[1] == "closes":
        return Close(Side(words[0]), _pattern(words[2:]), gap)
    return Arrive(Side(words[0]), int(words[1]), gap)


def _pattern(words: list[str]) -> Pattern:
    if not {"from", "to", "above", "below"} & set(words):
        return Equals(int(words[0])) if len(words) == 1 else OneOf(frozenset(map(int, words)))
    ends = {word: int(end) for word, end in zip(words[::2], words[1::2], strict=True)}
    low, high = ends.get("from", ends.get("above")), ends.get("to", ends.get("below"))
    return Between(low, high, "above" in ends, "below" in ends)


def _words(move: Move) -> str:
    match move:
        case Arrive(side, key, gap):
            return f"{side.value} {key}" + f" after {gap}" * bool(gap)
        case Close(side, pattern, gap):
            return f"{side.value} closes {_spell(pattern)}" + f" after {gap}" * bool(gap)
        case _:
            return type(move).__name__.lower()


def _spell(pattern: Pattern) -> str:
    match pattern:
        case Equals(value):
            return str(value)
        case Between(low, high, low_open, high_open):
            ends = [("above" if low_open else "from", low), ("below" if high_open else "to", high)]
            return " ".join(str(word) for word in chain(*(end for end in ends if end[1] is not None)))
        case OneOf(values):
            return " ".join(str(value) for value in sorted(values, key=str))
        case _:
            raise ValueError(f"no word for {pattern}")
