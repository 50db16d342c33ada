"""Which errors a Python process of Spark prints before it ends."""

from __future__ import annotations

import os
import subprocess
import sys
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
        [sys.executable, "-m", "endmark.spark.python_process", "raising", "one", "two"],
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
        "runpy.run_module('endmark.spark.python_process', run_name='__main__', alter_sys=True)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (process.returncode, process.stderr) == (0, "")
