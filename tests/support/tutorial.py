"""The commands of docs/first-pipeline.md, on a broker of their own."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from endmark.embedded.process import ManagedProcess

PAGE = Path(__file__).parents[2] / "docs" / "first-pipeline.md"
_BROKER = "endmark broker\n"
_START_SECONDS = 400  # with the download of the broker


@dataclass(frozen=True)
class Step:
    """A block of commands that has been run.

    Args:
        commands: the block.
        said: what it printed to standard output.
        log: what it printed to standard error.
        seconds: the seconds that it took.
    """

    commands: str
    said: str
    log: str
    seconds: float


def follow(
    directory: Path, environment: Mapping[str, str], port: int, on_step: Callable[[Step], None]
) -> None:
    """Do what the page says.

    Args:
        directory: an empty directory to work in.
        environment: the environment of the commands, whose PATH finds `endmark` and `python`.
        port: a free port for the broker.
        on_step: hears of each block when it has ended; the broker's ends when the broker is ready.
    """
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [program] = [text for kind, text in blocks if kind == "python"]
    first, *commands = [text for kind, text in blocks if kind == "sh"]
    assert first == _BROKER
    address = f"localhost:{port}"
    (directory / "shop.py").write_text(program.replace("localhost:9092", address))
    given = {**environment, "ENDMARK_BOOTSTRAP": address}
    clean = ["env", "--ignore-environment", *(f"{name}={value}" for name, value in given.items())]
    start = [*clean, "bash", "-c", f"cd {shlex.quote(str(directory))} && exec {first.strip()} --port {port}"]
    began = time.monotonic()
    with ManagedProcess("broker", start, directory / "broker.log", stop_seconds=60) as broker:
        broker.wait_ready(lambda: f"{address}\n" in broker.log.read_text(), _START_SECONDS)
        on_step(Step(first, broker.log.read_text(), "", time.monotonic() - began))
        for command in commands:
            on_step(run(command, directory, given))


def run(commands: str, directory: Path, environment: Mapping[str, str]) -> Step:
    """Run a block of commands; an error of one ends it."""
    began = time.monotonic()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=directory,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Step(commands, done.stdout, done.stderr, time.monotonic() - began)
