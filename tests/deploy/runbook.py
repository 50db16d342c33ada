"""Every command of docs/runbook.md, from top to bottom, against real parts: `make test-runbook`."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import textwrap
import threading
import time
from pathlib import Path

from sqlalchemy import make_url

from endmark.cli import AUCTION
from endmark.parts.broker import Broker
from endmark.parts.mariadb import MariaDb
from endmark_feed.run import FeedOptions
from support.warehouse import Warehouse

ROOT = Path(__file__).parents[2]
# Generous, for machines of two cores that do something else beside.
_SECONDS = 300.0
BLOCK = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[str]:
    text = (ROOT / "docs" / "runbook.md").read_text()
    return [textwrap.dedent(found[2]) for found in BLOCK.finditer(text)]


def work(warehouse: Warehouse) -> None:
    """Let the job in the background do something, so that there is something to stop, copy and check."""
    deadline = time.monotonic() + _SECONDS
    while warehouse.batches() == 0:
        assert time.monotonic() < deadline, (warehouse.directory / "job.log").read_text()
        time.sleep(0.5)


def prepare(directory: Path, database: MariaDb) -> dict[str, str]:
    """Files that the runbook takes for given: the administrator's, and the URL of a user who may read."""
    socket = directory / "mariadb" / "tables" / "server.sock"
    (directory / "admin.cnf").write_text(f"[client]\nuser=root\nsocket={socket}\n")
    reader = "CREATE USER job_a@'%' IDENTIFIED BY 'first'; GRANT SELECT ON warehouse.* TO job_a@'%'"
    command = ["mysql", "--defaults-file=admin.cnf", f"--execute={reader}"]
    subprocess.run(command, cwd=directory, check=True, timeout=30)
    url = make_url(database.url).set(username="job_a", password="first")  # noqa: S106  # gone with the database
    file = directory / "relation.url"
    file.write_text(url.render_as_string(hide_password=False))
    return {"ENDMARK_RELATION_URL_FILE": str(file)}


def execute(block: str, directory: Path, environment: dict[str, str]) -> None:
    command = ["bash", "-euo", "pipefail", "-c", block]
    subprocess.run(command, cwd=directory, env=environment, check=True, timeout=_SECONDS)


def main() -> None:
    options = FeedOptions(seed=9, minutes=1.5, rate=300, sellers=1_000, bad_rate=0.002)
    with tempfile.TemporaryDirectory(prefix="endmark-runbook-") as scratch:
        directory = Path(scratch)
        with Broker(directory / "broker") as broker, MariaDb(directory / "mariadb") as database:
            warehouse = Warehouse(directory, broker, database.url, options)
            feed = threading.Thread(target=warehouse.feed)
            feed.start()
            environment = os.environ | warehouse.environment() | prepare(directory, database)
            environment["PIPELINE"] = str(AUCTION)
            try:
                for block in blocks():
                    print(block, flush=True)
                    execute(block, directory, environment)
                    if "> job.pid" in block:
                        work(warehouse)
                    if block.startswith("mkdir backup"):
                        feed.join()  # so what is restored has something to read again
            finally:
                if (directory / "job.pid").exists():
                    execute('kill -KILL "$(cat job.pid)"', directory, environment)
            assert warehouse.verify().ok
    print(f"{len(blocks())} blocks of the runbook: passed")


if __name__ == "__main__":
    main()
