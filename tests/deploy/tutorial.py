"""The tutorial of docs/first-pipeline.md as somebody new does it, with a clock: `make test-tutorial`.

Once endmark is the wheel in an empty environment outside the tree, and once it is a fresh clone. Neither
packages nor jars are downloaded before, so the times of the first commands include downloads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from endmark.embedded.ports import free_port
from support.tutorial import Step, follow

ROOT = Path(__file__).parents[2]
PYTHON = Path(sys.base_prefix) / "bin" / "python3"  # without our packages
_EXTRAS = "spark,ops"  # those that the page names


def from_wheel(directory: Path) -> Path:
    """Install the wheel, which is built from the sdist, in an empty environment; return its programs."""
    build = [sys.executable, "-m", "hatchling", "build", "-d"]
    subprocess.run([*build, directory / "sdist", "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    [sdist] = (directory / "sdist").iterdir()
    subprocess.run(["tar", "--extract", "--file", sdist, "--directory", directory], check=True)
    [tree] = directory.glob("endmark-*")
    subprocess.run([*build, directory / "wheel", "-t", "wheel"], cwd=tree, check=True, capture_output=True)
    [wheel] = (directory / "wheel").iterdir()
    subprocess.run([PYTHON, "-m", "venv", directory / "venv"], check=True)
    programs = directory / "venv" / "bin"
    install: list[str | Path] = [
        programs / "pip",
        "install",
        "--quiet",
        "--no-cache-dir",
        "--disable-pip-version-check",
    ]
    subprocess.run([*install, f"{wheel}[{_EXTRAS}]"], check=True)
    return programs


def from_clone(directory: Path) -> Path:
    """Set a fresh clone up; return its programs."""
    subprocess.run(["git", "clone", "--quiet", ROOT, directory / "clone"], check=True)
    make = ["make", "--silent", "-C", str(directory / "clone"), "setup", f"PYTHON={PYTHON}"]
    subprocess.run(make, check=True, env={**os.environ, "PIP_NO_CACHE_DIR": "1"})
    return directory / "clone" / ".venv" / "bin"


def show(what: str, seconds: float) -> None:
    print(f"{seconds / 60:6.2f} min  {what}", flush=True)


def main() -> None:
    for name, install in (("wheel", from_wheel), ("clone", from_clone)):
        print(f"{name}:", flush=True)
        with tempfile.TemporaryDirectory(prefix="endmark-tutorial-") as scratch:
            began = time.monotonic()
            programs = install(Path(scratch))
            show("install", time.monotonic() - began)
            work, home = Path(scratch) / "work", Path(scratch) / "home"
            work.mkdir()
            path = f"{programs}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin"
            environment = {"PATH": path, "HOME": str(home), "ENDMARK_HOME": str(home / "endmark")}
            said: list[str] = []

            def on_step(step: Step, said: list[str] = said, began: float = began) -> None:
                show(step.commands.strip().splitlines()[0][:60], step.seconds)
                said.append(step.said)
                if step.commands.startswith("endmark run"):
                    show("from nothing to the first joined row", time.monotonic() - began)

            follow(work, environment, free_port(), on_step)
            assert any("Ann" in each for each in said), said


if __name__ == "__main__":
    main()
