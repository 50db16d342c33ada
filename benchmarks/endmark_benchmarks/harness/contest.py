"""Contenders in turn, each in a process of its own, and what their runs come to."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from endmark.errors import ConfigError, EndmarkError, MissingPartError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    Say = Callable[[str], None]
    Turn = TypeVar("Turn")


class DisagreementError(EndmarkError):
    """A contender gave other answers than it should, so there is nothing to compare."""


class Digest(NamedTuple):
    """Answers, whatever their order: how many, and the sums of both halves of their hashes."""

    rows: int
    high: int
    low: int

    @classmethod
    def total(cls, digests: Iterable[Sequence[int]]) -> Digest:
        found = [(0, 0, 0), *digests]
        return cls(*(sum(each[at] for each in found) for at in range(3)))


@dataclass(frozen=True)
class Rates:
    """Rows a second, of every run and in the middle."""

    runs: tuple[float, ...]
    median: float
    least: float
    most: float

    @classmethod
    def of(cls, runs: Iterable[float]) -> Rates:
        found = tuple(round(rate, 1) for rate in runs)
        return cls(found, statistics.median(found), min(found), max(found))


def require_known(option: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse names that do not exist.

    Args:
        option: the option that gives them.
        given: the names.
        known: the names that exist.

    Raises:
        ConfigError: a name does not exist.
    """
    if unknown := [name for name in given if name not in known]:
        raise ConfigError(f"--{option}: {unknown[0]!r} is not one of {', '.join(known)}")


def interleaved(contenders: Sequence[Turn], repeats: int, first: int = 0) -> Iterator[tuple[int, Turn]]:
    """Yield every contender once, then all of them again, so that a busy minute of the machine hits all
    alike.

    Each turn begins at another contender, so that none always runs behind the same one. The first turn begins
    with the contender of number `first`, the others as far apart as they can.

    Args:
        contenders: the contenders.
        repeats: the number of turns.
        first: a position among the contenders.
    """
    step = max(1, len(contenders) // max(1, repeats))
    for repeat in range(repeats):
        begin = (first + repeat * step) % max(1, len(contenders))
        for name in (*contenders[begin:], *contenders[:begin]):
            yield repeat, name


def in_process(module: str, task: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of JSON that `python -m module` prints for a task on its standard input.

    Raises:
        EndmarkError: the process failed; what it said is on stderr.
    """
    # Not by arguments, which everybody on the machine can read: a task has a database's password.
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(task),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise EndmarkError(f"{module} failed for {task['contender']} (exit code {done.returncode})")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def with_parts(
    names: Sequence[str], needing: Collection[str], fetch: Callable[[Say], list[Path]], say: Say
) -> tuple[list[str], list[str]]:
    """Return the contenders that can run, and the paths of the parts of those that need any.

    Contenders whose parts cannot be had are left out, and `say` hears of it.

    Args:
        names: the contenders.
        needing: those that need parts.
        fetch: fetches the parts, such as jars.
        say: hears of what is fetched or left out.
    """
    if not (found := [name for name in names if name in needing]):
        return list(names), []
    try:
        return list(names), [str(part) for part in fetch(say)]
    except MissingPartError as error:
        say(f"left out {', '.join(found)}: {error}")
        return [name for name in names if name not in needing], []


def compared(rates: dict[str, Rates], ours: str) -> dict[str, dict[str, Any]]:
    """Each contender's rates, and how many times as fast `ours` is by the medians."""
    return {
        name: {**asdict(each), "ratio": round(rates[ours].median / each.median, 2)}
        for name, each in rates.items()
    }
