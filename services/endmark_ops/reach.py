"""The reach of the sidecar: the tokens, the broker and the tables that it may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.storage import Location, location
from endmark_ops.http.access import Token

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress


@dataclass(frozen=True)
class Reach:
    """The tokens that the sidecar accepts, and the broker and tables that it may use.

    Args:
        tokens: the callers' tokens; if none of them may write, all writes are refused.
        bootstrap: the Kafka cluster, or the addresses of its brokers; `None`: no record is sent, and lag is
            unknown.
        warehouse: the directory of the Delta tables or its URL, in which `{pipeline}` is the pipeline's name;
            `None`: dead letters are not shown.

    Raises:
        ConfigError: the warehouse is a URL, but not that of a directory in an object store.
    """

    tokens: tuple[Token, ...] = ()
    bootstrap: ClusterOrAddress | None = None
    warehouse: str | None = None

    def __post_init__(self) -> None:
        self.warehouse_of("any")  # refuses a wrong URL at once

    def warehouse_of(self, pipeline: str) -> Location | None:
        """Return the directory of a pipeline's Delta tables; `None` if it is not known."""
        return None if self.warehouse is None else location(self.warehouse.replace("{pipeline}", pipeline))
