"""The bounds of rows in a join, by closed keys and by windows."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from endmark.operators.stream_join.presets import PRESETS, Preset
from endmark.pipeline.boundedness.bound import Bound, least
from endmark.pipeline.boundedness.input import Input, without
from endmark.pipeline.boundedness.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence


def rows_state(side: Input, others: list[Input], preset: Preset, step: str) -> State:
    """Return the state of a side's rows, given the other sides of its join."""
    able = PRESETS[preset]
    bounds = _shut(side, others, purges=able.purge)
    for other in others:
        if other.closes and able.purge:
            bounds += ways_over(other, without([side, *others], other))
    if bounds:
        return State(side.name, "rows", least(bounds))
    silent = [other for other in others if not other.closes]
    stuck = [other for other in others if other.stuck is not None] if side.window is not None else []
    no_window = (
        f"{side.window_field} is not set and" if able.window else f"preset {preset} has no windows and"
    )
    if stuck:
        no_window = f"{stuck[0].stuck} and"
    no_purge = " and ".join(each.without_punctuations for each in silent) if able.purge else "does not purge"
    if able.window and not able.purge:
        no_purge = f"preset {preset} does not purge"
    mends = [side.mend_window] if able.window and not stuck else []
    mends += [mend for each in stuck for mend in each.mends_stuck]
    if able.purge:
        mends += mend_punctuations(silent)
        # Where one of several other streams closes keys, its own window frees all rows of a key.
        mends += [other.mend_window for other in others if other.closes and able.window]
    elif not silent:
        mends.append(f"set {step}.preset: {Preset.AUTO}")
    return State(side.name, "rows", note=f"since {no_window} {no_purge}", mends=tuple(mends))


def _shut(side: Input, others: Sequence[Input], *, purges: bool) -> list[Bound]:
    """Return the ways in which no row of the others can meet the rows of a side any more.

    Args:
        side: the side.
        others: the other sides.
        purges: whether closed keys free rows.
    """
    ways = [
        [*(["window"] if _passes(side, other) else []), *(["closing"] if other.closes and purges else [])]
        for other in others
    ]
    return [bound_of([], side, list(zip(others, chosen, strict=True))) for chosen in product(*ways)]


def _passes(side: Input, other: Input) -> bool:
    """Return whether the progress of another side leaves the window of a side's rows."""
    return side.window is not None and other.stuck is None


def ways_over(side: Input, others: Sequence[Input]) -> list[Bound]:
    """Return the ways in which no result of a key can come any more, if a side closes the key."""
    ways = [
        [*(["closing"] if other.closes else []), *(["window"] if _passes(side, other) else [])]
        for other in others
    ]
    return [bound_of([side], side, list(zip(others, chosen, strict=True))) for chosen in product(*ways)]


def bound_of(closing: list[Input], side: Input, chosen: Sequence[tuple[Input, str]]) -> Bound:
    """Return the bound in which some sides close the key, and others leave the window of a side's rows."""
    closing = [*closing, *(other for other, way in chosen if way == "closing")]
    passing = tuple(other.name for other, way in chosen if way == "window")
    return Bound(
        tuple(each.name for each in closing),
        tuple(str(each.closes) for each in closing),
        side.on if closing else (),
        side.window.total_seconds() if side.window is not None and passing else None,
        passing,
    )


def mend_punctuations(silent: Sequence[Input]) -> list[str]:
    """Return the change by which all of some inputs close keys, if there is one."""
    mends = [each.mend_punctuations for each in silent]
    return [" and ".join(mends)] if mends and all(mends) else []
