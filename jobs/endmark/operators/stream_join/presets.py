"""Presets: the papers' stream joins as settings of one operator.

A preset decides when rows leave state and when keys are announced. It never changes which rows are results.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from endmark.errors import ConfigError


class Preset(StrEnum):
    """The name of a preset."""

    SHJ = "shj"
    XJOIN = "xjoin"
    WJOIN = "wjoin"
    PJOIN = "pjoin"
    MJOIN = "mjoin"
    PWJOIN = "pwjoin"
    AUTO = "auto"


class Goal(StrEnum):
    """The aim of a stream join: most results a second, least state, or earliest punctuations."""

    THROUGHPUT = "throughput"
    MEMORY = "memory"
    PUNCTUATIONS = "punctuations"


class Propagation(StrEnum):
    """The rule by which a closed key is announced.

    `NEVER` announces nothing. `CLOSED` announces a key once both streams have closed it (PJoin). `EARLY` also
    announces a key once one stream has closed it and has no live row of it (PWJoin's theorems 3.1 and 4.1,
    MJoin's 1-NP).
    """

    NEVER = "never"
    CLOSED = "closed"
    EARLY = "early"


@dataclass(frozen=True)
class Policy:
    """The treatment of state by one bucket's join.

    Args:
        purge_every: the number of punctuations of a side that are collected until the other side is purged;
            `None`: it is never purged.
        propagate: the rule by which keys are announced.
        memory: bytes of rows that stay resident between two batches. Rows beyond that are spilled. `None`:
            all rows stay.
    """

    purge_every: int | None = 1
    propagate: Propagation = Propagation.EARLY
    memory: int | None = None


DEFAULT = Policy()


@dataclass(frozen=True)
class Abilities:
    """The abilities of a preset.

    Args:
        window: rows leave state when they leave the window.
        purge: rows leave state when the other side closes their key.
        batch: purging may wait for several punctuations.
        propagate: the rule by which keys are announced.
        spill: rows that do not fit into memory meet the other side later.
    """

    window: bool
    purge: bool
    batch: bool
    propagate: Propagation
    spill: bool


PRESETS = {
    Preset.SHJ: Abilities(window=False, purge=False, batch=False, propagate=Propagation.NEVER, spill=False),
    Preset.XJOIN: Abilities(window=False, purge=False, batch=False, propagate=Propagation.NEVER, spill=True),
    Preset.WJOIN: Abilities(window=True, purge=False, batch=False, propagate=Propagation.NEVER, spill=False),
    Preset.PJOIN: Abilities(window=False, purge=True, batch=True, propagate=Propagation.CLOSED, spill=True),
    Preset.MJOIN: Abilities(window=False, purge=True, batch=True, propagate=Propagation.CLOSED, spill=True),
    Preset.PWJOIN: Abilities(window=True, purge=True, batch=False, propagate=Propagation.EARLY, spill=False),
    Preset.AUTO: Abilities(window=True, purge=True, batch=True, propagate=Propagation.EARLY, spill=True),
}


# Fields of the pipeline file's join that a goal sets where the file leaves them out. By MJoin's rule 1,
# purging in batches makes the most results a second; its experiments purge after 100 punctuations. By rule 2,
# purging at once takes the least memory. Spilled rows take no memory, but time when later rows meet them.
GOALS: dict[Goal, dict[str, int | None]] = {
    Goal.THROUGHPUT: {"purge_every": 100, "memory": None},
    Goal.MEMORY: {"purge_every": 1, "memory": 64_000_000},
    Goal.PUNCTUATIONS: {"purge_every": 1, "memory": None},
}


def policy(
    preset: Preset,
    *,
    windowed: bool,
    purge_every: int = 1,
    autotune: bool = False,
    memory: int | None = None,
    goal: Goal | None = None,
    inputs: int = 2,
    prefix: str = "",
) -> Policy:
    """Combine a preset with the settings beside it.

    Args:
        preset: the name of the preset.
        windowed: whether a side has a window.
        purge_every, memory: the fields of `Policy`.
        autotune: whether the job may turn `purge_every`.
        goal: the goal by which some of these were chosen; `None` without one.
        inputs: the number of inputs. With more than two, purging does not wait if keys are announced early:
            the search for the last row of a key is already all the work of purging.
        prefix: a prefix for the names of fields in error messages.

    Raises:
        ConfigError: the preset has no use for a setting. The message names the presets that have.
    """
    able = PRESETS[preset]
    if windowed and not able.window:
        raise _refused(
            preset, f"{prefix}window", "has no windows", [p for p, a in PRESETS.items() if a.window]
        )
    lazy = {"goal": goal is not None, "purge_every": purge_every > 1, "autotune": autotune}
    waits = [
        name
        for name, each in PRESETS.items()
        if each.batch and (inputs == 2 or each.propagate is not Propagation.EARLY)
    ]
    for field, asked in lazy.items():
        if asked and preset not in waits:
            does = "purges with each punctuation" if able.purge else "does not purge"
            of_several = f" of {inputs} inputs" if able.batch else ""
            raise _refused(preset, f"{prefix}{field}", f"{does}{of_several}", waits)
    if memory is not None and not able.spill:
        others = [name for name, ability in PRESETS.items() if ability.spill]
        raise _refused(preset, f"{prefix}memory", "keeps all rows in memory", others)
    return Policy(purge_every if able.purge else None, able.propagate, memory)


def _refused(preset: Preset, field: str, why: str, others: list[Preset]) -> ConfigError:
    return ConfigError(f"{field}: preset {preset} {why}; leave it out, or choose preset {', '.join(others)}")
