"""URLs of databases: how they are read and checked, and how they are shown without their secrets."""

from __future__ import annotations

import inspect
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.errors import ConfigError, MissingPartError

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIModule

# The driver of each kind of database, by the names that people write.
_DRIVERS = {
    "sqlite": "sqlite",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
    "postgres": "postgresql+pg8000",
    "postgresql": "postgresql+pg8000",
}
_INSTALLED_BY = {"pg8000": "pip install 'endmark[postgresql]'"}
_OBJECTS = {"ssl", "ssl_context"}  # arguments of drivers that no text can be
_FILES = "ssl_ca", "ssl_cert", "ssl_key"
# Beside `ssl_ca`, each of the first two makes PyMySQL forget the authorities of `ssl_ca` and the name of the
# host. It then takes a certificate that any authority of the operating system has signed for any host.
# PyMySQL does not use the third one at all, and takes each text of the last one for true.
_MISLEADING = {
    "ssl_verify_cert": "ssl_ca=FILE alone makes the driver check the certificate",
    "ssl_verify_identity": "ssl_ca=FILE alone makes the driver check certificate and host name",
    "ssl_key_password": "write a key without a password: openssl pkey -in OLD -out FILE",
    "ssl_disabled": "only ssl_disabled=true is clear",
}
_DISABLED = "true", "1"
_FORMS = "sqlite:///file.db, or mysql://, mariadb:// or postgresql:// with user:password@host/database"


def database_url(url: str, what: str) -> sa.URL:
    """Parse the URL of a database, and choose its driver if it names none.

    Args:
        url: the URL, as SQLAlchemy writes it. `postgres://` stands for `postgresql://`.
        what: a name for the URL in errors, such as `the ops URL`.

    Raises:
        ConfigError: the text is not a URL, its kind of database is not known, its driver does not take an
            option, or its password has an @ that is not escaped. The error shows no part of a malformed URL,
            since any may belong to the password.
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
        dbapi = found.get_dialect().import_dbapi()
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
    _require_known_options(found, dbapi, what)
    if found.get_driver_name() == "pymysql":
        _require_clear_options(found, what)
    return found


def _require_known_options(url: sa.URL, dbapi: DBAPIModule, what: str) -> None:
    """Refuse options that the driver does not take, such as those of another driver.

    SQLAlchemy hands them to the driver as arguments, which ended in a stack trace.
    """
    dialect: Any = url.get_dialect()
    try:
        _, given = dialect(dbapi=dbapi).create_connect_args(url)
    except ValueError:  # its text has the value, which nobody may be told
        raise ConfigError(f"{what} has an option whose value has a wrong form; correct it") from None
    try:
        known = inspect.signature(dbapi.connect).parameters
    except ValueError:  # some functions in C have none
        return
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values()):
        return
    taken = known.keys() - _OBJECTS
    if unknown := [name for name in url.query if name in given and name not in taken]:
        raise ConfigError(
            f"{what} has the option {', '.join(unknown)}, which the driver {url.get_driver_name()} does not "
            "take; leave it out"
        )


def _require_clear_options(url: sa.URL, what: str) -> None:
    """Refuse options for TLS by which PyMySQL does not do what they say."""
    for name, remedy in _MISLEADING.items():
        given = url.normalized_query.get(name, ())
        if given and not (name == "ssl_disabled" and set(given) <= set(_DISABLED)):
            raise ConfigError(
                f"{what} has the option {name}, by which the driver pymysql does not do what it says; "
                f"leave it out: {remedy}"
            )


def require_files(url: sa.URL, what: str) -> None:
    """Refuse a URL whose options name a certificate or key that cannot be read or used.

    A driver finds that out when it connects, and its error names no file. So a job waited for the server.
    """
    files = {name: file for name in _FILES for file in url.normalized_query.get(name, ())}
    for name, file in files.items():
        try:
            Path(file).open().close()
        except OSError as error:
            raise ConfigError(
                f"{what} names the file {file} by {name}, which cannot be read: {error.strerror}; "
                "correct the path, or put the file there"
            ) from error
    if "ssl_ca" in files:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(files["ssl_ca"])
        except ssl.SSLError as error:
            raise ConfigError(
                f"{what} names the file {files['ssl_ca']} by ssl_ca, which has no authorities "
                f"({error.reason}); name a file of PEM with certificates"
            ) from None
    if "ssl_cert" in files:
        _require_pair(files["ssl_cert"], files.get("ssl_key"), what)


def _require_pair(certificate: str, key: str | None, what: str) -> None:
    def no_password() -> str:
        raise ConfigError(
            f"{what} names a key in {key or certificate} that has a password; write one without: "
            f"openssl pkey -in {key or certificate} -out FILE"
        )

    try:
        # Without a function for the password, OpenSSL would ask the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password=no_password)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{what} names the certificate {certificate} by ssl_cert and its key by ssl_key, which do not "
            f"serve ({error.reason}); name a certificate and its own key, both in PEM"
        ) from None


def shown_url(url: sa.URL) -> str:
    """Return a URL for errors and logs, without password and options, which may hold another password."""
    return url.set(query={}).render_as_string(hide_password=True)
