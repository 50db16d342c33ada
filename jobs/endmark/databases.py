"""URLs of databases: how they are checked, and how they are shown without their secrets."""

from __future__ import annotations

import sqlalchemy as sa

from endmark.errors import ConfigError


def database_url(url: str, what: str) -> sa.URL:
    """Parse an SQLAlchemy URL. `what` names it in errors, such as `the ops URL`.

    Raises:
        ConfigError: the text is not a URL, or its password has an @ that is not escaped. The error shows no
            part of the URL, since any part of a malformed URL may belong to the password.
    """
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = None
    # For SQLAlchemy, a password ends at the first @.
    if parsed is not None and (parsed.password is None or url.count("@") == 1):
        return parsed
    if parsed is None and "@" not in url:
        raise ConfigError(f"{what} is no database URL such as sqlite:///r.db")
    raise ConfigError(
        f"{what} is no database URL such as mysql+pymysql://user:password@host/database; "
        "write @ : / ? # and % in a password as %40 %3A %2F %3F %23 and %25"
    )


def place(url: sa.URL) -> str:
    """Return a URL for errors and logs, without password and options, which may hold another password."""
    return url.set(query={}).render_as_string(hide_password=True)
