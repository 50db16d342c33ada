"""A notebook's code, run as Jupyter runs it: cell by cell in one process.

`PYTHONPATH=tests python -m support.notebook docs/frames.ipynb` puts what the cells print into the notebook.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# A cell's output is what it prints. The lines that Spark's JVM writes go to standard error.
_PROGRAM = """
import contextlib, io, json, sys
said, names = [], {}
for source in json.loads(sys.stdin.read()):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(source, "cell", "exec"), names)
    said.append(output.getvalue())
print(json.dumps(said))
"""


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells with code, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(cell: dict[str, Any]) -> str:
    """Return what the notebook says that a cell prints."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def run(notebook: dict[str, Any], directory: Path) -> list[str]:
    """Return what each code cell prints, run in a directory.

    Raises:
        AssertionError: a cell failed.
    """
    sources = ["".join(cell["source"]) for cell in code_cells(notebook)]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(sources),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(path: Path) -> None:
    notebook = json.loads(path.read_text())
    for cell, text in zip(code_cells(notebook), run(notebook, path.parent), strict=True):
        lines = text.splitlines(keepends=True)
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": lines}] if lines else []
    path.write_text(f"{json.dumps(notebook, indent=1, ensure_ascii=False)}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
