"""A demo as a child process, and what every demo must show."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from endmark.pipelines import AUCTION
from support.commands import endmark

DEADLINE_SECONDS = 500


@dataclass(frozen=True)
class Demo:
    """A running demo.

    Args:
        process: its process, whose output is a report in JSON.
        log: what it says besides.
    """

    process: subprocess.Popen[str]
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text()

    def dashboard(self) -> str:
        """Return the dashboard's address once the demo has said it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            # Rich wraps lines to the width of the terminal, so the address may stand on a line of its own.
            if found := re.search(r"dashboard:\s+(http://127\.0\.0\.1:\d+/)", self.said):
                return found[1]
            assert self.process.poll() is None, self.said
            time.sleep(0.2)
        raise AssertionError(f"no dashboard after {DEADLINE_SECONDS} s: {self.said}")

    def wait_for(self, text: str) -> None:
        """Wait until the demo has said something."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while text not in self._plain:
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.2)

    def wait_for_metric(self, url: str, name: str) -> None:
        """Wait until the sidecar has a metric: it knows of no pipeline before the job has started."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while name not in _get(f"{url}metrics"):
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.5)

    def token(self) -> str:
        """Return the token that may write, as the demo says it."""
        found = re.search(r"token to turn knobs[^:]*: (\S+)", self._plain)
        assert found is not None, self.said
        return found[1]

    def why(self, key: str) -> subprocess.CompletedProcess[str]:
        """Ask the job of the auction why a key is open, as the demo says how."""
        found = re.search(r"--bootstrap=(\S+) --ops-url=(\S+)", self._plain)
        assert found is not None, self.said
        reach = f"--bootstrap={found[1]}", f"--ops-url={found[2]}", "--wait=120"
        return endmark("why", str(AUCTION), key, *reach, ENDMARK_RELATION_URL="sqlite://")

    @property
    def _plain(self) -> str:
        """The output of the demo so far, in one line, since Rich wraps lines to the width of the terminal."""
        return " ".join(self.said.split())


@contextmanager
def running_demo(directory: Path, *arguments: str) -> Iterator[Demo]:
    """Run a demo in a directory; it is killed in the end, if it still runs."""
    command = [sys.executable, "-m", "endmark.cli", "demo", "--json", f"--directory={directory}", *arguments]
    log = directory / "stderr"
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        try:
            yield Demo(process, log)
        finally:
            process.kill()
            process.wait()


def require_equal_tables_and_waiting_rows(directory: Path, lookup: str, *, stay: bool = False) -> None:
    """Run a short demo. Its tables are equal and conserved, and its dashboard answers while it runs.

    One that stays still has its dashboard and a job that answers when it has verified its tables.

    HYBRIDJOIN has read pages, and bids have waited for theirs.

    Args:
        directory: an empty directory for the demo.
        lookup: where the master table is: `sqlite` or `mysql`.
        stay: whether the demo stays until it is interrupted.
    """
    arguments = ["--minutes=0.25", "--rate=4000", "--seed=11", f"--lookup={lookup}"]
    arguments += ["--stay"] if stay else []
    began = time.monotonic()
    with running_demo(directory, *arguments) as demo:
        url = demo.dashboard()
        assert "<title>" in _get(url)
        demo.wait_for_metric(url, "endmark_run_up")
        if stay:
            demo.wait_for("stay until Ctrl-C")
            assert "<title>" in _get(url)
            require_latencies(_get(f"{url}metrics"), time.monotonic() - began)
            assert demo.why("item_id=1").returncode == 0
            demo.process.send_signal(signal.SIGINT)
        output, _ = demo.process.communicate(timeout=DEADLINE_SECONDS)

    assert demo.process.returncode == 0, output + demo.said
    report = json.loads(output[output.index("{") :])
    assert report["ok"]
    actual = {table["table"]: table["actual"] for table in report["tables"]}
    assert actual["results"] > 35_000
    assert actual["groups"] > 1_000
    assert actual["dead_letters"] > 0
    assert actual["violations"] > 0
    pages, lists, waiting = _looked_up(demo.said)
    assert pages > 500
    assert lists == 0
    assert waiting > 0


def require_latencies(metrics: str, longest: float) -> None:
    """Hold that each record of a stream has a latency, and that none waited since before the demo.

    Args:
        metrics: what the sidecar has told Prometheus after a job has read all records.
        longest: seconds since the demo was started, in which all records were made.
    """
    for stream in ("items", "bids"):
        own = rf'{{pipeline="auction",stream="{stream}"}} (\S+)'
        [read] = re.findall(rf"endmark_records_total{own}", metrics)
        [counted] = re.findall(rf"endmark_latency_seconds_count{own}", metrics)
        [seconds] = re.findall(rf"endmark_latency_seconds_sum{own}", metrics)
        assert float(read) == float(counted) > 0
        assert 0 < float(seconds) < longest * float(read)


def _looked_up(said: str) -> list[int]:
    """The summary's figures of the lookup. Rich wraps its lines to the width of the terminal."""
    found = re.search(
        r"lookup in sellers, strategy hybrid: ([\d,]+) pages and ([\d,]+) lists of keys read, "
        r"at most ([\d,]+) rows waiting",
        " ".join(said.split()),
    )
    assert found is not None, said
    return [int(figure.replace(",", "")) for figure in found.groups()]


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  # a loopback address of ours
        text: str = answer.read().decode()
    return text
