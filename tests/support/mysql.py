"""A MySQL server as tests start it, out of a jar: Debian has MariaDB instead, and the two are not alike."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from pathlib import Path

from endmark.embedded.mariadb import MariaDb
from support.server_jars import mysql_jar

# Servers whose relations may have texts as keys: the MySQL of the jar has no collation that is exact.
WITH_TEXT_KEYS = ["mariadb", *(["mysql"] if "ENDMARK_MYSQLD" in os.environ else [])]

_ARCHIVE = "mysql-Linux-amd64.tar.gz"


class MySql(MariaDb):
    """A MySQL server, else as `MariaDb`.

    `ENDMARK_MYSQLD` names the program of another version; without it, it is 8.0.15.
    """

    name = "MySQL"

    @property
    def authority(self) -> Path:
        """The certificate that signed the server's own one, which names no host."""
        return self._tables / "ca.pem"

    def _server(self) -> list[str]:
        # The X protocol would take a port, files a directory, that nobody asked for.
        return [self._program(), "--no-defaults", "--mysqlx=OFF", "--secure-file-priv=NULL"]

    def _installer(self, tables: Path) -> list[str]:
        user = [] if os.geteuid() else ["--user=root"]
        return [self._program(), "--no-defaults", "--initialize-insecure", f"--datadir={tables}", *user]

    def _program(self) -> str:
        if there := os.environ.get("ENDMARK_MYSQLD"):
            return there
        home = self._data_dir / "program"
        if not home.is_dir():
            scratch = self._data_dir / "unpacking"
            shutil.rmtree(scratch, ignore_errors=True)
            with (
                zipfile.ZipFile(mysql_jar()) as packed,
                packed.open(_ARCHIVE) as archive,
                tarfile.open(fileobj=archive, mode="r:gz") as files,
            ):
                files.extractall(scratch, filter="data")
            scratch.rename(home)
        return str(home / "bin/mysqld")
