"""The real parts that tests of several kinds share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from endmark.parts.broker import Broker
from endmark.parts.mariadb import MariaDb
from endmark.parts.ports import free_port as find_free_port
from endmark.spark.class_archive import local_jars
from support.mysql import MySql
from support.postgresql import PostgreSql


@pytest.fixture(scope="session")
def jars() -> list[Path]:
    """The jars of a Spark session that reads Kafka and writes Delta, with an archive of its classes."""
    return local_jars(print)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker without topics; tests name their topics so that they do not meet."""
    with Broker(tmp_path_factory.mktemp("broker"), say=print) as running:
        yield running


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """A running server with an empty database; tests name their tables so that they do not meet."""
    with MariaDb(tmp_path_factory.mktemp("mariadb")) as running:
        yield running


@pytest.fixture(scope="session")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySql]:
    """As `mariadb`."""
    with MySql(tmp_path_factory.mktemp("mysql")) as running:
        yield running


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSql]:
    """As `mariadb`."""
    with PostgreSql() as running:
        yield running


@pytest.fixture
def free_port() -> int:
    return find_free_port()
