"""A PostgreSQL server as tests start it, out of a jar."""

from __future__ import annotations

import os
import secrets
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

from sqlalchemy import URL, create_engine, text
from sqlalchemy.exc import DBAPIError

from endmark.embedded.ports import LOOPBACK, listens, require_free_port
from endmark.embedded.process import ManagedProcess
from endmark.embedded.server import Part
from support.server_jars import postgresql_jar

_ARCHIVE = "postgres-linux-x86_64.txz"
_NOBODY = 65534
_SECONDS = 60.0


class PostgreSql(Part):
    """A server on 127.0.0.1 with the user `endmark`, who owns all.

    It refuses to run as root, so root runs it as nobody, in a directory of nobody's.
    """

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="endmark-postgresql-")))
        self._password = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        """SQLAlchemy URL of its database, password included."""
        driver, database = "postgresql+pg8000", "postgres"
        url = URL.create(driver, "endmark", self._password, LOOPBACK, self._port, database)
        return url.render_as_string(hide_password=False)

    def start(self) -> None:
        require_free_port(self._port, "PostgreSQL")
        tables, log = self._data_dir / "tables", self._data_dir / "server.log"
        if not tables.exists():
            self._install(tables, log)
        options = ["-D", tables, "-h", LOOPBACK, "-p", self._port, "-k", self._data_dir]
        options += ["-c", "max_connections=20", "-c", "timezone=Asia/Tokyo"]
        command = [*_as_nobody(), self._program("postgres"), *map(str, options)]
        self._process = ManagedProcess("PostgreSQL", command, log)
        self._process.wait_ready(self._answers, _SECONDS)

    def stop(self) -> None:
        """End at once, and leave nothing. Asked to end, the server would wait 15 s for pooled connections."""
        self.kill()
        shutil.rmtree(self._data_dir)

    def _install(self, tables: Path, log: Path) -> None:
        with (
            zipfile.ZipFile(postgresql_jar()) as packed,
            packed.open(_ARCHIVE) as archive,
            tarfile.open(fileobj=archive, mode="r:xz") as files,
        ):
            files.extractall(self._data_dir / "program", filter="data")
        password = self._data_dir / "password"
        password.write_text(self._password)
        if not os.geteuid():
            # The mask of the process may have made files that nobody cannot read.
            for file in (self._data_dir, *self._data_dir.rglob("*")):
                os.chown(file, _NOBODY, _NOBODY, follow_symlinks=False)
        options = ["-D", tables, "-U", "endmark", "-A", "scram-sha-256", f"--pwfile={password}"]
        # Not the order of bytes, which tables of others do not have either.
        options += ["--encoding=UTF8", "--locale-provider=icu", "--icu-locale=en", "--locale=C"]
        command = [*_as_nobody(), self._program("initdb"), *map(str, options)]
        ManagedProcess("creating PostgreSQL's system tables", command, log).wait_done(_SECONDS)
        password.unlink()

    def _program(self, name: str) -> str:
        return str(self._data_dir / "program/bin" / name)

    def _answers(self) -> bool:
        if not listens(self._port):
            return False
        engine = create_engine(self.url)
        try:
            with engine.connect() as connection:
                connection.execute(text("SELECT 1"))
        except DBAPIError:
            return False
        finally:
            engine.dispose()
        return True


def _as_nobody() -> list[str]:
    user = str(_NOBODY)
    # With another user the kernel forgets that it was to end the child with us.
    command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--pdeathsig=KILL", "--"]
    return [] if os.geteuid() else command
