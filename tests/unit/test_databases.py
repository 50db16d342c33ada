"""URLs of databases: a password that is not spelled for a URL is refused, and told to nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from endmark.control.database import OpsDatabase
from endmark.databases import database_url
from endmark.errors import ConfigError
from endmark.relation.connection import engine
from endmark_feed.relation import seed_relation
from endmark_ops.source import OpsReader

OPENED_BY: list[Callable[[str], Any]] = [
    OpsDatabase,
    OpsReader,
    lambda url: engine(url, 1),
    lambda url: seed_relation(url, 1, 1),
]


@pytest.mark.parametrize("opened", OPENED_BY)
@pytest.mark.parametrize("password", ["up@hunter2", "up@hunter2/x", "up@hunter2:x", "up@x?hunter2"])
def test_a_password_with_an_at_sign_as_it_is_is_refused_without_being_told(
    opened: Callable[[str], Any], password: str
) -> None:
    """What follows its first @ would pass for a host, which drivers put into their errors."""
    with pytest.raises(ConfigError, match="%40") as refused:
        opened(f"mysql+pymysql://ops:{password}@127.0.0.1:1/warehouse")
    assert "hunter2" not in str(refused.value)


def test_other_at_signs_are_taken() -> None:
    assert database_url("sqlite:////data/a@b.db", "the URL").database == "/data/a@b.db"
    spelled = database_url("mysql+pymysql://ops:up%40hunter2@host/warehouse", "the URL")
    assert (spelled.password, spelled.host) == ("up@hunter2", "host")
    assert isinstance(spelled, sa.URL)
