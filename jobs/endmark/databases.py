"""URLs of databases: how they are read and checked, and how they are shown without their secrets."""

from __future__ import annotations

import sqlalchemy as sa

from endmark.errors import ConfigError, MissingPartError

# The driver of each kind of database, by the names that people write.
_DRIVERS = {
    "sqlite": "sqlite",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "postgres": "postgresql+pg8000",
    "postgresql": "postgresql+pg8000",
}
_INSTALLED_BY = {"pg8000": "pip install 'endmark[postgresql]'"}
_FORMS = "sqlite:///file.db, or mysql://, mariadb:// or postgresql:// with user:password@host/database"


def database_url(url: str, what: str) -> sa.URL:
    """Parse the URL of a database, and choose its driver if it names none.

    Args:
        url: the URL, as SQLAlchemy writes it. `postgres://` stands for `postgresql://`.
        what: a name for the URL in errors, such as `the ops URL`.

    Raises:
        ConfigError: the text is not a URL, its kind of database is not known, or its password has an @ that
            is not escaped. The error shows no part of a malformed URL, since any may belong to the password.
        MissingPartError: the driver is not installed. The error says what installs it.
    """
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = None
    # For SQLAlchemy, a password ends at the first @.
    if parsed is not None and (parsed.password is None or url.count("@") == 1):
        return _with_driver(parsed, what)
    if parsed is None and "@" not in url:
        raise ConfigError(f"{what} is no database URL such as {_FORMS}")
    raise ConfigError(
        f"{what} is no database URL such as mysql://user:password@host/database; "
        "write @ : / ? # and % in a password as %40 %3A %2F %3F %23 and %25"
    )


def _with_driver(url: sa.URL, what: str) -> sa.URL:
    kind, _, driver = url.drivername.partition("+")
    if kind not in _DRIVERS:
        raise ConfigError(f"{what} begins with {kind!r}, which is no known database; write {_FORMS}")
    found = url if driver else url.set(drivername=_DRIVERS[kind])
    try:
        found.get_dialect().import_dbapi()
    except sa.exc.NoSuchModuleError:
        raise ConfigError(
            f"{what} names the driver {driver!r}, which is not known; leave +{driver} out"
        ) from None
    except ImportError as error:
        driver = found.get_driver_name()
        install = _INSTALLED_BY.get(driver, f"leave +{driver} out, or install its package")
        raise MissingPartError(
            f"{what} needs the Python driver {driver}, which is not installed ({error}); {install}"
        ) from error
    return found


def place(url: sa.URL) -> str:
    """Return a URL for errors and logs, without password and options, which may hold another password."""
    return url.set(query={}).render_as_string(hide_password=True)
