"""URLs of databases: which are taken, and how they are told without what is secret in them."""

from __future__ import annotations

import sqlalchemy as sa

from endmark.errors import ConfigError


def database_url(url: str, what: str) -> sa.URL:
    """Parse an SQLAlchemy URL. `what` names it in errors, such as `the ops URL`.

    Raises:
        ConfigError: it is none, or its password has an @ as it is. No part of the URL is told, since in a
            malformed one a part of the password passes for something else.
    """
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = None
    # SQLAlchemy takes a password to end at the first @.
    if parsed is not None and (parsed.password is None or url.count("@") == 1):
        return parsed
    if parsed is None and "@" not in url:
        raise ConfigError(f"{what} is no database URL such as sqlite:///r.db")
    raise ConfigError(
        f"{what} is no database URL such as mysql+pymysql://user:password@host/database; "
        "write @ : / ? # and % in a password as %40 %3A %2F %3F %23 and %25"
    )


def place(url: sa.URL) -> str:
    """The URL for errors and logs, without its password and its options, which may hold another."""
    return url.set(query={}).render_as_string(hide_password=True)
