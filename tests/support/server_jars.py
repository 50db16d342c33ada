"""The jars with database servers in them that tests start."""

from __future__ import annotations

from pathlib import Path

from endmark.embedded.jars import pinned_jars

_PINS = Path(__file__).parents[1] / "containers" / "standins"


def mysql_jar() -> Path:
    """Return the path of a jar with a MySQL server for Linux in it."""
    [jar] = pinned_jars(_PINS, "mysql", "a MySQL server", print)
    return jar


def postgresql_jar() -> Path:
    """Return the path of a jar with a PostgreSQL server for Linux in it."""
    [jar] = pinned_jars(_PINS, "postgresql", "a PostgreSQL server", print)
    return jar
