"""The reach of the sidecar: the tokens, the broker and the tables that it may use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from endmark_ops.access import Token

if TYPE_CHECKING:
    from endmark.kafka_cluster import Kafka


@dataclass(frozen=True)
class Reach:
    """The tokens that the sidecar accepts, and the broker and tables that it may use.

    Args:
        tokens: the callers' tokens; if none of them may write, all writes are refused.
        bootstrap: the Kafka cluster, or the addresses of its brokers; `None`: no record is sent, and lag is
            unknown.
        warehouse: the directory of the Delta tables, in which `{pipeline}` stands for the pipeline's name;
            `None`: dead letters are not shown.
    """

    tokens: tuple[Token, ...] = ()
    bootstrap: Kafka | None = None
    warehouse: Path | None = None

    def warehouse_of(self, pipeline: str) -> Path | None:
        """Return the directory of a pipeline's Delta tables; `None` if it is not known."""
        return None if self.warehouse is None else Path(str(self.warehouse).replace("{pipeline}", pipeline))
