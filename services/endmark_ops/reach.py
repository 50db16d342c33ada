"""The reach of the sidecar: what it may use besides the ops database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from endmark_ops.access import Token


@dataclass(frozen=True)
class Reach:
    """Whom it answers, and where it writes and reads.

    Args:
        tokens: without one that may write, nothing can be written.
        bootstrap: the broker's host:port; without it no record is sent, and lag is unknown.
        warehouse: directory of the Delta tables; without it dead letters are not shown.
    """

    tokens: tuple[Token, ...] = ()
    bootstrap: str | None = None
    warehouse: Path | None = None
