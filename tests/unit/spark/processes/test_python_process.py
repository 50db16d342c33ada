"""Which errors a Python process of Spark prints before it ends."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def ended(directory: Path, raises: str) -> subprocess.CompletedProcess[str]:
    """Run a module that prints its arguments and raises an error, as Spark runs its modules."""
    (directory / "raising.py").write_text(
        "import sys\n"
        "from pyspark.errors import PySparkRuntimeError\n"
        "print(__name__, sys.argv[1:])\n"
        f"raise {raises}\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "endmark.spark.processes.python_process", "raising", "one", "two"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(directory), *sys.path[1:]])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "error",
    [
        "EOFError",
        "BrokenPipeError",
        "ConnectionResetError",
        "PySparkRuntimeError(errorClass='CANNOT_OPEN_SOCKET', messageParameters={'errors': 'refused'})",
    ],
)
def test_a_process_whose_jvm_has_gone_is_silent(tmp_path: Path, error: str) -> None:
    process = ended(tmp_path, error)

    assert (process.returncode, process.stdout, process.stderr) == (1, "__main__ ['one', 'two']\n", "")


def test_a_worker_of_a_planner_is_silent_when_left() -> None:
    """Spark starts workers that plan by its own daemon. Each printed a traceback at the end of a good job."""
    # pytest's directories make the path of a socket longer than the 107 bytes that it may have.
    with tempfile.TemporaryDirectory(prefix="endmark-") as directory:
        said = _left_alone(Path(directory))
    assert said == ""


def _left_alone(directory: Path) -> str:
    """Return what a daemon says whose only worker is left before it answers."""
    (directory / "pyspark_left.py").write_text(
        "def main(infile, outfile):\n    infile.read()\n    outfile.write(b'answer')\n"
    )
    settings = {
        "PYTHONPATH": os.pathsep.join([str(directory), *sys.path[1:]]),
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(directory),
        "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "true",
    }
    command = [
        sys.executable,
        "-m",
        "endmark.spark.processes.python_process",
        "pyspark.daemon",
        "pyspark_left",
    ]
    to = subprocess.PIPE
    with subprocess.Popen(command, env=os.environ | settings, stdin=to, stdout=to, stderr=to) as daemon:
        assert daemon.stdout is not None
        length = int.from_bytes(daemon.stdout.read(4))
        with socket.socket(socket.AF_UNIX) as jvm:
            jvm.connect(daemon.stdout.read(length).decode())
            worker = int.from_bytes(jvm.recv(4))
            watched = os.pidfd_open(worker)
        assert select.select([watched], [], [], 60)[0]
        os.close(watched)
        _, said = daemon.communicate()
    return said.decode()


@pytest.mark.parametrize("error", ["ValueError('wrong')", "FileNotFoundError('missing')"])
def test_other_errors_are_printed(tmp_path: Path, error: str) -> None:
    process = ended(tmp_path, error)

    assert process.returncode == 1
    assert process.stderr.startswith("Traceback")
    assert error.split("'")[1] in process.stderr


def test_a_module_that_a_forked_process_has_imported_is_run_without_a_warning() -> None:
    """Each first run of a job printed that its behaviour might be unpredictable."""
    code = (
        "import json.tool, runpy, sys\n"
        "sys.argv[:] = ['process', 'json.tool', '--help']\n"
        "runpy.run_module('endmark.spark.processes.python_process', run_name='__main__', alter_sys=True)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (process.returncode, process.stderr) == (0, "")
