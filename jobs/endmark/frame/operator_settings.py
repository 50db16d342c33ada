"""The settings of a query's joins and group-bys, which its checkpoint keeps.

The tasks of a bucket compare them with those in its state, too. But by then the query has started, and the
error of a task stands within the trace of a query that has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.driver.checkpoint import keep_operators, operators_before
from endmark.engine.bucket.plan import differences
from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MENDING = "go back to them, or start with a new checkpoint and an empty table"


@dataclass(frozen=True)
class OperatorSettings:
    """The settings of a join or a group-by that must not change while there is state.

    Args:
        step: the step of the frame, `stream_join` or `aggregate`.
        settings: the settings as texts, by name.
    """

    step: str
    settings: Mapping[str, str]


def require_same_operators(checkpoint: Path, operators: Sequence[OperatorSettings]) -> None:
    """Keep the settings of a query in its checkpoint; refuse others once a batch is planned.

    Args:
        checkpoint: the directory of the checkpoint, which is locked.
        operators: the joins and group-bys of the query, in the order in which rows go through them.

    Raises:
        ConfigError: a setting differs. The error names the setting and both of its values.
    """
    now = [{"step": each.step, **each.settings} for each in operators]
    before = operators_before(checkpoint)
    if before is None:
        keep_operators(checkpoint, now)
        return
    if len(before) != len(now):
        raise ConfigError(
            f"checkpoint {checkpoint} was made by a query with {len(before)} of stream_join and aggregate, "
            f"but this query has {len(now)} of them; {_MENDING}"
        )
    changes: list[str] = []
    for number, (was, own) in enumerate(zip(before, now, strict=True), 1):
        step = f"{own['step']} {number} of {len(now)}: " if len(now) > 1 else ""
        changes += [f"{step}{change}" for change in differences(was, own)]
    if changes:
        raise ConfigError(
            f"checkpoint {checkpoint} was made with other arguments: {', '.join(changes)}; {_MENDING}"
        )
