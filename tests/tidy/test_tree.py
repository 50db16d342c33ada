"""House rules as tests: which way imports point, how long a module may be, what must not be in the tree."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted([*ROOT.glob("jobs/**/*.py"), *ROOT.glob("services/**/*.py")])
EVERYTHING = sorted([*MODULES, *ROOT.glob("tests/**/*.py")])

# Who may not import whom; the arrow of ARCHITECTURE.md, the other way round.
FORBIDDEN = {
    "jobs/endmark": ["endmark.cli"],
    "jobs/endmark/client": ["pyspark", "pyarrow", "pandas", "endmark.formats", "endmark.spark"],
    "jobs/endmark/punctuation": [
        "pyspark",
        "kafka",
        "sqlalchemy",
        "endmark.state",
        "endmark.joins",
        "endmark.reference",
        "endmark.spark",
    ],
    "jobs/endmark/reference": [
        "pyspark",
        "pyarrow",
        "numpy",
        "kafka",
        "sqlalchemy",
        "endmark.state",
        "endmark.joins",
        "endmark.spark",
    ],
    "jobs/endmark/reproduce": ["pyspark", "kafka", "sqlalchemy", "endmark.state", "endmark.spark"],
    "jobs/endmark/state": [
        "pyspark",
        "kafka",
        "sqlalchemy",
        "endmark.joins",
        "endmark.aggregate",
        "endmark.spark",
    ],
    "jobs/endmark/joins": [
        "pyspark",
        "kafka",
        "sqlalchemy",
        "endmark.aggregate",
        "endmark.spark",
        "endmark.relation.sql",
    ],
    "jobs/endmark/aggregate": ["pyspark", "kafka", "sqlalchemy", "endmark.joins", "endmark.spark"],
    "jobs/endmark/formats": ["pyspark", "kafka", "sqlalchemy", "endmark.joins", "endmark.spark"],
    "jobs/endmark/relation": ["pyspark", "kafka", "endmark.joins", "endmark.spark"],
    "jobs/endmark/verify": ["pyspark", "endmark.formats", "endmark.state", "endmark.joins", "endmark.spark"],
    "jobs/endmark/parts": ["endmark.joins", "endmark.spark", "endmark.bench"],
    "jobs/endmark/spark": ["endmark.bench", "endmark.frame"],
    "jobs/endmark/spark/packing": ["pyspark"],
    "jobs/endmark/spark/bucket": ["pyspark"],
    "jobs/endmark/ops": ["pyspark", "endmark.joins", "endmark.spark"],
    "jobs/endmark/frame": ["endmark.bench"],
    "services": ["pyspark", "delta", "pyarrow", "pandas", "duckdb", "endmark.spark"],
}


def imports(file: Path) -> Iterator[str]:
    """Modules a file imports when it runs; imports for type checkers alone do not count."""
    tree = ast.parse(file.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_point_one_way(folder: str) -> None:
    """No module imports what lies behind it."""
    files = sorted((ROOT / folder).rglob("*.py"))
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files
        for name in imports(file)
        for forbidden in FORBIDDEN[folder]
        if name == forbidden or name.startswith(f"{forbidden}.")
    ]

    assert files
    assert not wrong


def test_only_some_packages_import_pyspark() -> None:
    """Spark stays inside endmark/spark and endmark/frame; the command line and the jars only look for its
    files. Measurements drive it in other ways, so as to compare."""
    inside = ("endmark/spark/", "endmark/frame/", "endmark/bench/")
    outside = [
        str(file.relative_to(ROOT))
        for file in MODULES
        if not any(package in str(file) for package in inside)
        and any(name.startswith("pyspark") for name in imports(file))
    ]

    assert not outside


def test_modules_are_short() -> None:
    """A module has at most 300 lines, a function at most 60."""
    long_modules = [
        str(file.relative_to(ROOT)) for file in EVERYTHING if len(file.read_text().splitlines()) > 300
    ]
    long_functions = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
        for file in EVERYTHING
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 60
    ]

    assert not long_modules
    assert not long_functions


def test_nothing_unfinished() -> None:
    """No stub, no skipped test, no pickle in state, no machine's own path."""
    words = ["TO" + "DO", "FIX" + "ME", "X" * 3, "pytest.sk" + "ip", "mark.sk" + "ip", "mark.x" + "fail"]
    words += ["NotImplemented" + "Error", "import pick" + "le"]
    tracked = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.sh", "*.yml", "*.yaml", "Makefile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    found = [
        f"{name}: {word}"
        for name in tracked
        for word in [*words, "/ro" + "ot/", "/wo" + "rk/"]
        if re.search(rf"(?<![\w]){re.escape(word)}", (ROOT / name).read_text())
    ]

    assert tracked
    assert not found


def test_files_that_come_first_are_there() -> None:
    """Those of `LONG`; one that has another name by now would come at its place in the alphabet."""
    written = (ROOT / "tests/conftest.py").read_text()
    named = re.findall(r'^    "(\w+/test_\w+\.py)",$', written, re.MULTILINE)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []
