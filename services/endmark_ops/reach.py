"""The reach of the sidecar: what it may use besides the ops database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from endmark_ops.access import Token


@dataclass(frozen=True)
class Reach:
    """The reach of the sidecar: the tokens that it accepts, and the broker and tables that it uses.

    Args:
        tokens: the callers' tokens; without one that may write, all writes are refused.
        bootstrap: the broker's host:port; `None`: no record is sent, and lag is unknown.
        warehouse: the directory of the Delta tables; `None`: dead letters are not shown.
    """

    tokens: tuple[Token, ...] = ()
    bootstrap: str | None = None
    warehouse: Path | None = None
