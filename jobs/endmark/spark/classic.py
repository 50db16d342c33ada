"""Refuses Spark Connect, whose client has no JVM to ask what a step does to a column."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from endmark.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONNECT = "pyspark.sql.connect."
_REFUSAL = (
    "frames do not work over Spark Connect, since their steps need Spark in the same program; build the "
    "session with SparkSession.builder.master(...), without remote(...), SPARK_REMOTE and "
    "spark.api.mode=connect"
)


def require_classic(frame: DataFrame) -> None:
    """Refuse a frame of a Spark Connect session.

    Raises:
        ConfigError: the frame belongs to such a session.
    """
    if type(frame).__module__.startswith(_CONNECT):
        raise ConfigError(_REFUSAL)


def require_classic_builder(builder: SparkSession.Builder) -> None:
    """Refuse a builder that would connect to a Spark Connect server.

    Raises:
        ConfigError: the builder or the environment names such a server.
    """
    options = builder._options
    mode = options.get("spark.api.mode", os.environ.get("SPARK_API_MODE", ""))
    if "spark.remote" in options or "SPARK_REMOTE" in os.environ or mode.lower() == "connect":
        raise ConfigError(_REFUSAL)
