"""The wheel with each of its extras alone: it imports and runs what the extra is for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from importlib.metadata import Distribution, distribution
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from packaging.requirements import Requirement

from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from support.ops_job import API, PIPELINE, Job, costs_of

ROOT = Path(__file__).parents[2]
CONDITIONED = str(AUCTION.with_name("orders.yaml"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [built] = directory.iterdir()
    return built


def needed(one: Distribution, extras: frozenset[str], found: set[str]) -> None:
    """Add the distributions that one needs with some of its extras, and those that these need."""
    for line in one.requires or ():
        requirement = Requirement(line)
        asked = [{"extra": extra} for extra in extras] or [{"extra": ""}]
        if requirement.marker is not None and not any(map(requirement.marker.evaluate, asked)):
            continue
        if requirement.name not in found:
            found.add(requirement.name)
            needed(distribution(requirement.name), frozenset(requirement.extras), found)


@dataclass(frozen=True)
class Installed:
    """Python with the wheel and what one extra asks for, and with nothing else of this environment."""

    packages: Path

    def command(self, *arguments: str) -> list[str]:
        variables = f"PYTHONPATH={self.packages}", "ENDMARK_RELATION_URL=sqlite://"
        return ["env", *variables, sys.executable, "-S", *arguments]

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.packages.parent,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Callable[[str], Installed]:
    def with_extra(extra: str) -> Installed:
        packages = tmp_path / f"with-{extra}"
        zipfile.ZipFile(wheel).extractall(packages)
        found: set[str] = set()
        [ours] = packages.glob("*.dist-info")
        needed(Distribution.at(ours), frozenset({extra} - {""}), found)
        for name in found:
            for file in distribution(name).files or ():
                top = file.parts[0]
                if top not in ("..", "__pycache__") and not (packages / top).exists():
                    (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))
        return Installed(packages)

    return with_extra


def test_the_laboratories_are_not_in_the_wheel(wheel: Path) -> None:
    folders = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {name for name in folders if "dist-info" not in name} == {"endmark", "endmark_feed", "endmark_ops"}


def test_without_any_extra(installed: Callable[[str], Installed]) -> None:
    """Files are checked, but for their conditions, which it says; streams are fed, and clients send."""
    python = installed("")

    told = python.run("-m", "endmark.cli", "validate", CONDITIONED)
    assert "is valid" in told
    assert re.search(
        r"conditions are not checked, since the package \w+ is missing; pip install 'endmark\[spark\]'", told
    )
    assert "Usage" in python.run("-m", "endmark.cli", "feed", "--help")
    python.run("-c", "import endmark.client, endmark_feed.auction_feed, endmark_feed.papers.topic_feed")


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("run", CONDITIONED), "spark"),
        (("verify", CONDITIONED), "verify"),
        (("maintain", CONDITIONED), "verify"),
        (("ops",), "ops"),
        (("init", "drafted.yaml", "--sample=orders=orders.jsonl"), "spark"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(
    installed: Callable[[str], Installed], arguments: tuple[str, ...], extra: str
) -> None:
    python = installed("")
    row = '{"id": 1, "at": "2026-01-01T00:00:00Z"}'
    (python.packages.parent / "orders.jsonl").write_text(row)
    command = python.command("-m", "endmark.cli", *arguments)
    done = subprocess.run(
        command, cwd=python.packages.parent, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert f"pip install 'endmark[{extra}]'" in done.stderr


def test_the_sidecar(installed: Callable[[str], Installed], tmp_path: Path) -> None:
    """It says what lookups would yield, for which it once needed pyarrow."""
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    with closing(OpsDatabase(url)) as database:
        pipeline = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})
        database.pipelines.describe(PIPELINE, describe(pipeline).model_dump())
        job = Job(database)
        job.start()
        job.commit(told=costs_of("sellers", 1000))
    serve = installed("ops").command("-m", "endmark.cli", "ops", "--ops-url", url, "--port=0", "--json")
    with subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as sidecar:
        assert sidecar.stdout is not None
        try:
            address = urlsplit(json.loads(sidecar.stdout.readline())["url"])
            connection = HTTPConnection(address.netloc, timeout=60)
            connection.request("GET", f"{API}/what-ifs")
            found = json.load(connection.getresponse())["what_ifs"]
            connection.close()
        finally:
            sidecar.terminate()

    assert [each["relation"] for each in found] == ["sellers"]


def test_the_job(installed: Callable[[str], Installed]) -> None:
    """Conditions are checked, and the modules of job, frames and tables have what they import."""
    python = installed("spark")

    assert "not checked" not in python.run("-m", "endmark.cli", "validate", CONDITIONED)
    python.run("-c", "import endmark.spark.job, endmark.spark.sink, endmark.spark.tables, endmark.frame")


def test_verify(installed: Callable[[str], Installed]) -> None:
    """The extra has all that verification and maintenance import."""
    python = installed("verify")

    python.run("-c", "import endmark.verify.verification, endmark.maintenance")


def test_relations_in_postgresql(installed: Callable[[str], Installed]) -> None:
    asks = "import sqlalchemy; print(sqlalchemy.create_engine('postgresql+pg8000://').dialect.driver)"
    assert installed("postgresql").run("-c", asks).strip() == "pg8000"
