"""An ops database on each kind of server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.tables import META


@pytest.fixture(params=["sqlite", "mariadb"])
def ops(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpsDatabase]:
    on_server = request.param == "mariadb"
    url = request.getfixturevalue("mariadb").url if on_server else f"sqlite:///{tmp_path / 'ops.db'}"
    database = OpsDatabase(url)
    yield database
    if on_server:
        META.drop_all(database.engine)
    database.close()


@pytest.fixture(params=["sqlite", "mariadb", "mysql", "postgresql"])
def server_ops(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpsDatabase]:
    """An ops database of each kind."""
    on_server = request.param != "sqlite"
    url = request.getfixturevalue(request.param).url if on_server else f"sqlite:///{tmp_path / 'ops.db'}"
    with closing(OpsDatabase(url)) as opened:
        yield opened
        META.drop_all(opened.engine)
