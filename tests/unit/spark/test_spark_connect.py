"""Frames of Spark Connect are refused before a step fails on the JVM that their client lacks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from endmark.errors import ConfigError
from endmark.frame import PunctuatedFrame, configure
from endmark.spark.dataframe import stream_join

REFUSED = r"do not work over Spark Connect, .*; build the session with SparkSession\.builder\.master"
# The class itself cannot be imported without Spark Connect's packages, which endmark does not need.
REMOTE: Any = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()


def test_a_frame_of_spark_connect_is_refused() -> None:
    with pytest.raises(ConfigError, match=REFUSED):
        PunctuatedFrame(REMOTE, "over")
    with pytest.raises(ConfigError, match=REFUSED):
        stream_join(REMOTE, REMOTE, on="id", time="at", window=timedelta(hours=1))


@pytest.mark.parametrize("option", [{"spark.remote": "local[2]"}, {"spark.api.mode": "connect"}])
def test_a_session_of_spark_connect_is_not_configured(option: dict[str, str]) -> None:
    builder = SparkSession.Builder()
    for name, value in option.items():
        builder = builder.config(name, value)
    with pytest.raises(ConfigError, match=REFUSED):
        configure(builder)


def test_a_variable_that_names_a_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(ConfigError, match="SPARK_REMOTE"):
        configure(SparkSession.Builder())
