"""A MariaDB server as a child process, separate from any server that the system runs."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from sqlalchemy import URL, create_engine, text
from sqlalchemy.exc import OperationalError

from endmark.embedded.claim import claimed
from endmark.embedded.ports import LOOPBACK, listens, require_free_port
from endmark.embedded.process import ManagedProcess
from endmark.embedded.server import Part
from endmark.errors import MissingPartError

_DATABASE = "warehouse"
_USER = "endmark"
# Debian keeps servers in sbin, which many users do not have on their PATH.
_SBIN = "/usr/sbin:/usr/local/sbin"
_INSTALL_SECONDS = 120.0
_START_SECONDS = 60.0


class MariaDb(Part):
    """A MariaDB server on 127.0.0.1 whose tables outlast restarts.

    The server has the database `warehouse`, which the user `endmark` owns. This object makes the user's
    password, which is in a file only while the server starts.

    Args:
        data_dir: the directory of the server's tables.
        port: the server's port; `None` takes a free one and keeps it over restarts of this object.
        memory: the server's memory for pages of tables, with its own units, such as `256M`.
    """

    name = "MariaDB"

    def __init__(self, data_dir: Path, port: int | None = None, memory: str = "256M") -> None:
        super().__init__(data_dir, port)
        self._memory = memory
        self._password = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """The SQLAlchemy URL of the database, with the password."""
        return self._url.render_as_string(hide_password=False)

    def start(self) -> None:
        """Start the server, and return once it answers at `url`.

        Raises:
            MissingPartError: MariaDB is not installed, port or directory are in use, or the server fails.
        """
        server, install = self._server(), self._installer(self._installing)
        require_free_port(self._port, self.name)
        with claimed(self._data_dir, self.name) as claim:
            self._install_once(install)
            welcome = self._write_welcome()
            try:
                command = [*server, *self._options(welcome)]
                self._process = ManagedProcess(self.name, command, self._log, inherits=[claim])
                self._process.wait_ready(self._answers, _START_SECONDS)
            finally:
                welcome.unlink()

    def _server(self) -> list[str]:
        """Return the server's command without the options that servers of both kinds have."""
        return [_require("mariadbd"), "--no-defaults"]

    def _installer(self, tables: Path) -> list[str]:
        """Return the command that creates system tables in a directory."""
        command = [_require("mariadb-install-db"), "--no-defaults", f"--datadir={tables}", *_as_us()]
        # A server that starts removes the temporary tables of others from the directory that it shares.
        return [
            *command,
            f"--tmpdir={self._data_dir}",
            "--auth-root-authentication-method=socket",
            "--skip-test-db",
            "--skip-name-resolve",
        ]

    @property
    def _url(self) -> URL:
        return URL.create("mysql+pymysql", _USER, self._password, LOOPBACK, self._port, _DATABASE)

    @property
    def _log(self) -> Path:
        return self._data_dir / f"{self.name.lower()}.log"

    @property
    def _tables(self) -> Path:
        return self._data_dir / "tables"

    @property
    def _installing(self) -> Path:
        return self._data_dir / "installing"

    def _install_once(self, install: list[str]) -> None:
        """Create the system tables unless they exist. They appear at once, by the rename of a directory."""
        if self._tables.is_dir():
            return
        shutil.rmtree(self._installing, ignore_errors=True)
        process = ManagedProcess(f"creating {self.name}'s system tables", install, self._log)
        process.wait_done(_INSTALL_SECONDS)
        self._installing.rename(self._tables)

    def _write_welcome(self) -> Path:
        """Write SQL that the server runs before it listens. A URL-safe password needs no escapes in it."""
        path = self._data_dir / "welcome.sql"
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        user = f"'{_USER}'@'{LOOPBACK}'"
        path.write_text(
            f"CREATE DATABASE IF NOT EXISTS {_DATABASE} CHARACTER SET utf8mb4;\n"
            f"CREATE USER IF NOT EXISTS {user};\n"
            f"ALTER USER {user} IDENTIFIED BY '{self._password}';\n"
            f"GRANT ALL ON {_DATABASE}.* TO {user};\n"
        )
        return path

    def _options(self, welcome: Path) -> list[str]:
        return [
            *_as_us(),
            f"--datadir={self._tables}",
            f"--tmpdir={self._data_dir}",
            f"--bind-address={LOOPBACK}",
            f"--port={self._port}",
            # This path is relative to the data directory, since a socket's whole path has 107 bytes at most.
            "--socket=server.sock",
            f"--pid-file={self._data_dir / 'mariadb.pid'}",
            f"--init-file={welcome}",
            f"--innodb-buffer-pool-size={self._memory}",
            "--skip-name-resolve",
        ]

    def _answers(self) -> bool:
        if not listens(self._port):
            return False
        engine = create_engine(self._url)
        try:
            with engine.connect() as connection:
                connection.execute(text("SELECT 1"))
        except OperationalError:
            return False
        finally:
            engine.dispose()
        return True


def _as_us() -> list[str]:
    # MariaDB runs as root only with this option. It then need not own the directories above its tables.
    return [] if os.geteuid() else ["--user=root"]


def _require(program: str) -> str:
    path = shutil.which(program) or shutil.which(program, path=_SBIN)
    if path is None:
        raise MissingPartError(f"`{program}` was not found; install mariadb-server or give --relation-url")
    return path
