"""The Python environment of Pathway, which needs other versions of some packages than endmark does."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import endmark_benchmarks
from endmark.embedded.jars import cache_home
from endmark.errors import EndmarkError, MissingPartError
from endmark_benchmarks.contenders.query import CORES

if TYPE_CHECKING:
    from collections.abc import Callable

_PINS = Path(__file__).with_name("pathway.txt")


def pathway_python(say: Callable[[str], None]) -> list[Path]:
    """Return the path of the one Python that has Pathway. Its environment is made if it is missing.

    Args:
        say: hears of what is made.

    Raises:
        MissingPartError: the packages cannot be fetched.
    """
    pins = hashlib.sha256(_PINS.read_bytes()).hexdigest()[:12]
    place = cache_home() / "environments" / f"pathway-{pins}"
    complete = place / "complete"
    if not complete.exists():
        say(f"installing Pathway (once, into {place})")
        # An environment has its own path in its files, so it is made where it stays.
        _run([sys.executable, "-m", "venv", "--clear", str(place)])
        pip = [str(place / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--requirement", str(_PINS)])
        complete.touch()
    return [place / "bin" / "python"]


def in_pathway(python: str, module: str, task: dict[str, Any]) -> dict[str, Any]:
    """Return what a module says that runs in Pathway's Python, with two threads.

    Args:
        python: the path of that Python.
        module: the module, which ends with `answer` of `pathway_answers.py`.
        task: its task, as values for JSON.

    Raises:
        EndmarkError: it failed; what it said is on stderr.
    """
    packages = Path(endmark_benchmarks.__file__).parents[1]
    done = subprocess.run(
        [python, "-m", module],
        input=json.dumps(task),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(packages), "PATHWAY_THREADS": str(CORES)},
    )
    if done.returncode:
        raise EndmarkError(f"Pathway failed in {module} (exit code {done.returncode}); look at its log above")
    found: dict[str, Any]
    [found] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return found


def _run(command: list[str]) -> None:
    """Run a command.

    Raises:
        MissingPartError: it failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        reason = said[-1] if said else f"{command[0]} ended with code {done.returncode}"
        raise MissingPartError(
            f"cannot install Pathway: {reason}; check the network connection and try again"
        )
