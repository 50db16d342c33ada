"""A Spark standalone cluster of processes on loopback, and jobs that are submitted to it as packaged."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from endmark.embedded.ports import LOOPBACK, free_port, listens
from endmark.embedded.process import ManagedProcess

_START_SECONDS = 90.0
# Python workers are in process groups of their own and write until they find their executor gone.
_PYTHON_ENDS_SECONDS = 3.0


def _spark_home() -> Path:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


class Worker:
    """A worker, with a directory that only it and its executors write to."""

    def __init__(self, process: ManagedProcess, place: Path) -> None:
        self._process = process
        self._place = place

    @property
    def pid(self) -> int:
        return self._process.pid

    def segments(self) -> int:
        """Local copies of state that its executors have made."""
        copies = (self._place / "tmp").glob("endmark-segments-*/**/*")
        return sum(1 for path in copies if path.is_file())

    def executors(self) -> int:
        """Executors that it has started so far."""
        return sum(1 for _ in (self._place / "work").glob("app-*/*"))

    def has_environment(self) -> bool:
        """Return whether one of its executors has unpacked the environment of tasks."""
        return any((self._place / "work").glob("app-*/*/environment"))

    def kill(self) -> None:
        """End it and its executors at once, as a machine that loses power."""
        self._process.kill()

    def kill_executor(self) -> None:
        list_children = ["pgrep", "--parent", str(self._process.pid)]
        children = subprocess.run(list_children, check=True, capture_output=True, text=True, timeout=10)
        [executor] = children.stdout.split()
        os.kill(int(executor), signal.SIGKILL)


class Cluster:
    """A master and workers of one core each, who share a secret with their drivers.

    All files are below `directory`. All processes end with the `with` block.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port, self._web_port, self.rest_port = free_port(), free_port(), free_port()
        self._workers = 0
        self._started: list[ManagedProcess] = []
        settings = self._settings("conf")
        # For the processes below: whose settings, which address, and how much of the machine.
        os.environ |= {
            "SPARK_CONF_DIR": str(settings),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
        }

    def __enter__(self) -> Self:
        master = self._daemon("master", "Master", {"port": self._port, "webui-port": self._web_port})
        master.wait_ready(lambda: listens(self._port) and listens(self._web_port), _START_SECONDS)
        return self

    def __exit__(self, *_error: object) -> None:
        for process in reversed(self._started):
            process.kill()
        time.sleep(_PYTHON_ENDS_SECONDS)

    @property
    def url(self) -> str:
        return f"spark://{LOOPBACK}:{self._port}"

    @property
    def page(self) -> str:
        """The master's web interface."""
        return f"http://{LOOPBACK}:{self._web_port}"

    def status(self) -> Any:
        """Return the master's report on its workers and jobs."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=_START_SECONDS) as answer:  # noqa: S310
            return json.load(answer)

    def start_stranger(self) -> ManagedProcess:
        """A worker who has made up a secret."""
        settings = os.environ["SPARK_CONF_DIR"]
        os.environ["SPARK_CONF_DIR"] = str(self._settings("stranger-conf"))
        try:
            options = {"webui-port": 0, "work-dir": self._directory / "stranger"}
            return self._daemon("stranger", "Worker", options, self.url)
        finally:
            os.environ["SPARK_CONF_DIR"] = settings

    def start_worker(self) -> Worker:
        self._workers += 1
        place = self._directory / f"worker-{self._workers}"
        (place / "tmp").mkdir(parents=True)
        port = free_port()
        os.environ |= {"TMPDIR": str(place / "tmp"), "SPARK_LOCAL_DIRS": str(place / "local")}
        try:
            options = {"port": port, "webui-port": 0, "cores": 1, "memory": "1g", "work-dir": place / "work"}
            worker = self._daemon(place.name, "Worker", options, self.url)
        finally:
            del os.environ["TMPDIR"], os.environ["SPARK_LOCAL_DIRS"]
        worker.wait_ready(lambda: listens(port), _START_SECONDS)
        return Worker(worker, place)

    def _settings(self, name: str) -> Path:
        """A directory of settings with a secret of its own."""
        directory = self._directory / name
        directory.mkdir(mode=0o700)
        (directory / "spark-defaults.conf").write_text(
            "spark.authenticate         true\n"
            f"spark.authenticate.secret  {secrets.token_hex(24)}\n"
            "spark.master.rest.enabled  false\n"
            f"spark.master.rest.port     {self.rest_port}\n"
            "spark.ui.killEnabled       false\n"
        )
        return directory

    def _daemon(self, name: str, kind: str, options: dict[str, object], *words: str) -> ManagedProcess:
        command = [
            str(_spark_home() / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{kind.lower()}.{kind}",
        ]
        for option, value in {"host": LOOPBACK, **options}.items():
            command += [f"--{option}", str(value)]
        return self._start(name, [*command, *words], self._directory / f"{name}.log")

    def _start(self, name: str, command: list[str], log: Path) -> ManagedProcess:
        process = ManagedProcess(name, command, log)
        self._started.append(process)
        return process


class PackagedCluster(Cluster):
    """A cluster with drivers that spark-submit starts from a package.

    Args:
        directory: an empty directory.
        package: what `infra/package.sh` has made.
    """

    def __init__(self, directory: Path, package: Path) -> None:
        super().__init__(directory)
        self._package = package
        self._jobs = 0
        environment = directory / "environment"
        environment.mkdir()
        unpack = ["tar", "-xzf", str(package / "environment.tar.gz"), "-C", str(environment)]
        subprocess.run(unpack, check=True, timeout=120)
        # The packaged endmark must be what runs, not that of this tree.
        os.environ.pop("PYTHONPATH", None)

    def submit(
        self, *arguments: str, executors: int = 2, conf: Mapping[str, str] = MappingProxyType({})
    ) -> ManagedProcess:
        """Start the packaged program with these arguments as a driver, where its environment is unpacked.

        Executors, at most so many, unpack the archive. The driver's temporary files are below the cluster's
        directory, too. `conf` are more settings of Spark.
        """
        self._jobs += 1
        temporary = self._directory / f"driver-{self._jobs}"
        temporary.mkdir()
        jars = ",".join(str(jar) for jar in sorted((self._package / "jars").iterdir()))
        settings = {
            "spark.pyspark.python": "./environment/bin/python",
            "spark.pyspark.driver.python": "./environment/bin/python",
            "spark.driver.memory": "1g",
            "spark.executor.memory": "1g",
            "spark.cores.max": str(executors),
            **conf,
        }
        command = [
            "env",
            f"--chdir={self._directory}",
            f"TMPDIR={temporary}",
            f"SPARK_LOCAL_DIRS={temporary}",
            str(_spark_home() / "bin" / "spark-submit"),
            f"--master={self.url}",
            f"--driver-java-options=-Djava.io.tmpdir={temporary}",
            f"--jars={jars}",
            f"--archives={self._package / 'environment.tar.gz'}#environment",
            *(f"--conf={key}={value}" for key, value in settings.items()),
            str(self._package / "pipeline.py"),
            *arguments,
        ]
        log = self._directory / f"driver-{self._jobs}.log"
        return self._start("driver", command, log)
