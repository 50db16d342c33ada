"""The jars that contenders need, as `ivy.xml` beside this file pins them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from endmark.embedded.jars import pinned_jars

if TYPE_CHECKING:
    from endmark.embedded.jars import Say

_PINS = Path(__file__).parent


def jdbc_jars(say: Say) -> list[Path]:
    """Return the path of MariaDB's JDBC driver, for Spark's JDBC source; otherwise as `pinned_jars`."""
    return pinned_jars(_PINS, "bench", "MariaDB's JDBC driver", say)


def flink_jars(say: Say) -> list[Path]:
    """Return the paths of the class path of Apache Flink's SQL client; otherwise as `pinned_jars`."""
    return pinned_jars(_PINS, "flink", "Apache Flink's jars", say)
