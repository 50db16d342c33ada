"""The Python environment of Pathway, which needs other versions of some packages than endmark does."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from endmark.embedded.jars import cache_home
from endmark.errors import MissingPartError

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
