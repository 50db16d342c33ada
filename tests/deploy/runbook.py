"""The commands of docs/runbook.md, less those of compose, on real parts: `make test-runbook`."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import httpx
from sqlalchemy import make_url

from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.embedded.ports import LOOPBACK, free_port
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from support.runbook import blocks
from support.warehouse import Warehouse

# Generous, for machines of two cores that do something else beside.
_SECONDS = 300.0
_TOKEN = secrets.token_hex(24)


def work(warehouse: Warehouse) -> None:
    """Let the job in the background do something, so that there is something to stop, copy and check."""
    deadline = time.monotonic() + _SECONDS
    while warehouse.batches() == 0:
        assert time.monotonic() < deadline, (warehouse.directory / "job.log").read_text()
        time.sleep(0.5)


def prepare(directory: Path, database: MariaDb) -> dict[str, str]:
    """Files that the runbook takes for given: the administrator's, the URL of a user who may read, the tokens
    of the sidecar."""
    socket = directory / "mariadb" / "tables" / "server.sock"
    (directory / "admin.cnf").write_text(f"[client]\nuser=root\nsocket={socket}\n")
    reader = "CREATE USER job_a@'%' IDENTIFIED BY 'first'; GRANT SELECT ON warehouse.* TO job_a@'%'"
    command = ["mysql", "--defaults-file=admin.cnf", f"--execute={reader}"]
    subprocess.run(command, cwd=directory, check=True, timeout=30)
    url = make_url(database.url).set(username="job_a", password="first")  # noqa: S106  # gone with the database
    file = directory / "relation.url"
    file.write_text(url.render_as_string(hide_password=False))
    tokens = directory / "tokens"
    tokens.write_text(f"ann:write:{_TOKEN}\n")
    return {
        "ENDMARK_RELATION_URL_FILE": str(file),
        "ENDMARK_OPS_TOKENS_FILE": str(tokens),
        "OPS_PORT": str(free_port()),
    }


def tokens_count(environment: dict[str, str]) -> None:
    """The sidecar that runs knows the tokens of its file, and no other."""
    knob = f"http://{LOOPBACK}:{environment['OPS_PORT']}/api/pipelines/auction/knobs/nothing"
    known = dict(
        line.split(":write:") for line in Path(environment["ENDMARK_OPS_TOKENS_FILE"]).read_text().split()
    )
    with httpx.Client(transport=httpx.HTTPTransport(retries=8)) as client:
        for token in {_TOKEN, *known.values()}:
            answer = client.put(knob, headers={"Authorization": f"Bearer {token}"}, json={"value": "auto"})
            assert (answer.status_code != httpx.codes.UNAUTHORIZED) == (token in known.values()), answer.text


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
                for block in blocks(compose=False):
                    print(block, flush=True)
                    execute(block, directory, environment)
                    if "> job.pid" in block:
                        work(warehouse)
                    if "> ops.pid" in block:
                        tokens_count(environment)
                    if block.startswith("mkdir backup"):
                        feed.join()  # so what is restored has something to read again
            finally:
                for file in directory.glob("*.pid"):
                    execute(f'kill -KILL "$(cat {file})"', directory, environment)
            assert warehouse.verify().ok
    print(f"{len(blocks(compose=False))} blocks of the runbook: passed")


if __name__ == "__main__":
    main()
