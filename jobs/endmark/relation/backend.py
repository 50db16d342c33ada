"""The kinds of database that can hold a relation."""

from __future__ import annotations

from typing import Literal

import sqlalchemy as sa

from endmark.databases import database_url

Backend = Literal["sqlite", "mysql", "postgresql"]
_BACKENDS: dict[str, Backend] = {
    "sqlite": "sqlite",
    "mysql": "mysql",
    "mariadb": "mysql",
    "postgresql": "postgresql",
}


def backend_of(url: str | sa.URL) -> Backend:
    """Return the kind of database that a URL leads to.

    Raises:
        ConfigError: the text is no URL, or the database is of no known kind.
        MissingPartError: the URL's driver is not installed.
    """
    parsed = database_url(url, "the relation's URL") if isinstance(url, str) else url
    return _BACKENDS[parsed.get_backend_name()]
