"""The tutorial of docs/first-pipeline.md as somebody new does it, with a clock: `make test-tutorial`.

endmark is the wheel in an empty environment outside the tree, then the same as a tool of uv, then a fresh
clone. Neither packages nor jars are downloaded before. The times are kept in
benchmarks/results/tutorial.json.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from endmark.embedded.ports import free_port
from endmark_benchmarks.harness.origin import origin
from support.tutorial import Step, follow

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "tutorial.json"
PYTHON = Path(sys.base_prefix) / "bin" / "python3"  # without our packages
_EXTRAS = "spark,ops"  # those that the page names
_FETCHED = re.compile(r"^\S+ fetched .*: \d+ in (\d+) s$", re.MULTILINE)


@dataclass
class Clock:
    """The seconds since a way of installing began, and those of its parts."""

    began: float = field(default_factory=time.monotonic)
    parts: dict[str, float] = field(default_factory=dict)

    def keep(self, part: str, seconds: float) -> None:
        print(f"{seconds / 60:6.2f} min  {part}", flush=True)
        self.parts[part] = round(seconds, 1)

    def run(self, part: str, *commands: list[str | Path], **environment: str) -> None:
        began = time.monotonic()
        for command in commands:
            subprocess.run(command, check=True, env={**os.environ, **environment}, capture_output=True)
        self.keep(part, time.monotonic() - began)


def built_wheel(directory: Path) -> Path:
    """Build the sdist, and the wheel from it."""
    build = [sys.executable, "-m", "hatchling", "build", "-d"]
    subprocess.run([*build, directory / "sdist", "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    [sdist] = (directory / "sdist").iterdir()
    subprocess.run(["tar", "--extract", "--file", sdist, "--directory", directory], check=True)
    [tree] = directory.glob("endmark-*")
    subprocess.run([*build, directory / "wheel", "-t", "wheel"], cwd=tree, check=True, capture_output=True)
    [wheel] = (directory / "wheel").iterdir()
    return wheel


def from_wheel(wheel: Path, directory: Path, clock: Clock) -> Path:
    """Install the wheel in an empty environment; return its programs."""
    programs, packages = directory / "venv" / "bin", directory / "packages"
    pip: list[str | Path] = [programs / "pip", "--disable-pip-version-check", "--no-cache-dir"]
    what = f"{wheel}[{_EXTRAS}]"
    # pip installs pyspark from source, which needs these two.
    clock.run(
        "download of packages",
        [PYTHON, "-m", "venv", directory / "venv"],
        [*pip, "download", "--dest", packages, what, "setuptools", "wheel"],
    )
    clock.run("install", [*pip, "install", "--no-index", "--find-links", packages, what])
    return programs


def as_tool(wheel: Path, directory: Path, clock: Clock) -> Path:
    """Install the wheel as a tool of uv; return the programs of its environment."""
    install: list[str | Path] = [Path(sys.executable).with_name("uv"), "tool", "install", "--no-cache"]
    places = {"UV_TOOL_DIR": str(directory / "tools"), "UV_TOOL_BIN_DIR": str(directory / "bin")}
    clock.run("install with downloads", [*install, "--python", PYTHON, f"{wheel}[{_EXTRAS}]"], **places)
    return directory / "tools" / "endmark" / "bin"


def from_clone(wheel: Path, directory: Path, clock: Clock) -> Path:
    """Set a fresh clone up; return its programs."""
    clock.run(
        "install with downloads",
        ["git", "clone", "--quiet", ROOT, directory / "clone"],
        ["make", "--silent", "-C", directory / "clone", "setup", f"PYTHON={PYTHON}"],
        PIP_NO_CACHE_DIR="1",
    )
    return directory / "clone" / ".venv" / "bin"


def timed(install: Callable[[Path, Path, Clock], Path], wheel: Path) -> dict[str, float]:
    """Install endmark in one way and follow the page; return the seconds of each part."""
    with tempfile.TemporaryDirectory(prefix="endmark-tutorial-") as scratch:
        clock = Clock()
        programs = install(wheel, Path(scratch), clock)
        work, home = Path(scratch) / "work", Path(scratch) / "home"
        work.mkdir()
        path = f"{programs}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin"
        environment = {"PATH": path, "HOME": str(home), "ENDMARK_HOME": str(home / "endmark")}
        steps: list[Step] = []

        def on_step(step: Step) -> None:
            steps.append(step)
            clock.keep(step.commands.strip().splitlines()[0][:60], step.seconds)
            if step.commands.startswith("endmark run"):
                clock.keep("from nothing to the first joined row", time.monotonic() - clock.began)

        follow(work, environment, free_port(), on_step)
        fetched = [int(seconds) for step in steps for seconds in _FETCHED.findall(step.said + step.log)]
        assert len(fetched) == 2, fetched  # the broker's jars and Spark's
        clock.keep("download of jars, a part of the above", sum(fetched))
        assert any("Ann" in step.said for step in steps), steps
        return clock.parts


def main() -> None:
    report = origin()
    with tempfile.TemporaryDirectory(prefix="endmark-wheel-") as scratch:
        wheel = built_wheel(Path(scratch))
        for install in (from_wheel, as_tool, from_clone):
            print(f"{install.__name__}:", flush=True)
            report[install.__name__] = timed(install, wheel)
    RESULT.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
