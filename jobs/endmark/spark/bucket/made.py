"""What an operator on frames was made with, kept in its state, for want of a pipeline file to pin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


def require_same(was: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse state that was made with other arguments; state that says nothing of one is taken as it is.

    Raises:
        ConfigError: naming what differs, and both values of it.
    """
    changes = [
        f"{name} was {was[name]}, is {value}" for name, value in now.items() if was.get(name, value) != value
    ]
    if changes:
        raise ConfigError(
            f"the checkpoint was made with other arguments: {', '.join(changes)}; "
            "go back to them, or start with a new checkpoint"
        )
