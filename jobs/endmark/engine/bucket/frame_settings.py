"""The arguments of an operator on frames, kept in its state because no pipeline file pins them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


def require_same(was: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse state that was made with other arguments.

    Raises:
        ConfigError: some argument differs. The error names it, and both of its values.
    """
    changes = [
        f"{name} was {was.get(name, 'left out')}, is {now.get(name, 'left out')}"
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]
    if changes:
        raise ConfigError(
            f"the checkpoint was made with other arguments: {', '.join(changes)}; "
            "go back to them, or start with a new checkpoint"
        )
