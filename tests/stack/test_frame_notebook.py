"""The notebook of frames: each cell prints what the notebook shows below it."""

from __future__ import annotations

import json
from pathlib import Path

from support.notebook import code_cells, printed, run

NOTEBOOK = Path(__file__).parents[2] / "docs/frames.ipynb"


def test_cells_print_what_the_notebook_shows(jars: list[Path], tmp_path: Path) -> None:
    """Two streams are joined and grouped. Groups come out when their orders are over, each of them once."""
    assert jars
    notebook = json.loads(NOTEBOOK.read_text())

    said = run(notebook, tmp_path)

    assert said == [printed(cell) for cell in code_cells(notebook)]
    groups = [text for text in said if "paid" in text]
    assert ["9.50" in text for text in groups] == [False, True, True]
