"""The table of measures' functions, and what is said of it elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.operators.group_by.measures import MeasureSpec
from endmark.pipeline.measures import FUNCTIONS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_a_class_and_a_row_in_the_docs(name: str) -> None:
    assert issubclass(FUNCTIONS[name].implementation(), MeasureSpec)
    assert f"| `{name}` | {FUNCTIONS[name].doc} |\n" in (ROOT / "docs/semantics/measures.md").read_text()


def test_the_page_of_the_pipeline_file_names_all() -> None:
    assert f"# {', '.join(FUNCTIONS)}\n" in (ROOT / "docs" / "pipeline-file.md").read_text()
