"""House rules of imports: no circle, none from a lower floor to a higher one, nothing that a part lacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("jobs", "services", "papers", "benchmarks")
# The floors of ARCHITECTURE.md, from the ground up. A part imports from lower floors only.
FLOORS = (
    ("errors", "domain", "stored_text", "python_values", "private"),
    ("types",),
    ("databases", "metrics", "embedded", "storage", "schemas"),
    ("latency", "profile", "store_claim", "punctuation", "kafka"),
    ("expressions",),
    ("state", "wire"),
    ("relation",),
    ("operators.promise_codec", "operators.stream_batch"),
    ("operators.group_by", "operators.stream_join"),
    ("operators.lookup", "operators.nary_join"),
    ("pipeline", "pipelines"),
    ("control",),
    ("planning", "engine", "verify", "client"),
    ("driver", "maintenance", "draft"),
    ("spark",),
    ("frame", "demo"),
    ("cli",),
)
FLOOR = {part: number for number, floor in enumerate(FLOORS) for part in floor}
# What a part, and whatever it imports from our own tree, does without.
WITHOUT = {
    "endmark.client": ["pyspark", "pyarrow", "pandas", "sqlalchemy", "endmark.wire", "endmark.state"],
    "endmark.punctuation": ["pyspark", "kafka", "sqlalchemy"],
    "endmark.wire": ["pyspark", "kafka", "sqlalchemy", "endmark.state"],
    "endmark.operators": ["pyspark", "kafka", "sqlalchemy"],
    "endmark.relation": ["pyspark", "kafka"],
    "endmark.pipeline": ["pyspark", "kafka", "sqlalchemy"],
    "endmark.engine": ["pyspark", "kafka", "sqlalchemy"],
    "endmark.control": [
        "pyspark",
        "endmark.operators.lookup.join",
        "endmark.operators.group_by",
        "endmark.state",
    ],
    "endmark.planning": ["pyspark", "kafka"],
    "endmark.draft": ["pyspark", "duckdb", "deltalake"],
    "endmark.verify": [
        "pyspark",
        "endmark.wire",
        "endmark.state",
        "endmark.operators.lookup.join",
        "endmark.operators.group_by",
        "endmark.engine",
    ],
    "endmark_feed": ["pyspark", "pyarrow", "pandas", "duckdb", "delta", "endmark.spark"],
    "endmark_ops": ["pyspark", "pyarrow", "pandas", "duckdb", "delta", "endmark.spark"],
    "endmark_papers.algorithms": [
        "pyspark",
        "pyarrow",
        "numpy",
        "kafka",
        "sqlalchemy",
        "endmark.state",
        "endmark.operators",
    ],
    "endmark_papers.experiments": ["endmark.state", "matplotlib"],
    "endmark_papers": ["pyspark", "kafka", "sqlalchemy", "endmark.spark"],
}


def _name(source: Path, file: Path) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    _name(ROOT / source, file): file for source in SOURCES for file in sorted((ROOT / source).rglob("*.py"))
}


@cache
def imports(module: str, *, at_once: bool) -> frozenset[str]:
    """The names of modules that a module of ours imports: other packages by their first name, ours in full.

    Args:
        module: dotted name of a module of ours.
        at_once: leave out imports inside of functions, which run when these are called.
    """
    tree = ast.parse(MODULES[module].read_text())
    names = {name for node in _nodes(tree, at_once=at_once) for name in _imported(node)}
    parents = {module.rpartition(".")[0]} if "." in module else set()
    return frozenset(names | parents)


def _nodes(node: ast.AST, *, at_once: bool) -> Iterator[ast.AST]:
    """All nodes that run; those for type checkers alone do not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if at_once and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield child
        yield from _nodes(child, at_once=at_once)


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return
    for name in names:
        while name not in MODULES and "." in name:
            name = name.rpartition(".")[0]  # noqa: PLW2901 - of a function, class or constant: its module
        yield name


def _all_imports(module: str) -> dict[str, str]:
    """Everything that importing a module and calling it imports, with the module that does it.

    Imports inside of functions count for the module itself, and not for those that it imports.
    """
    found = dict.fromkeys(imports(module, at_once=False), module)
    left = list(found)
    while left:
        by = left.pop()
        new = (imports(by, at_once=True) if by in MODULES else frozenset()) - found.keys()
        found |= dict.fromkeys(new, by)
        left += new
    return found


def _part(module: str) -> str | None:
    """The part of `endmark` that a module belongs to."""
    names = module.split(".")
    if names[0] != "endmark" or len(names) == 1:
        return None
    return ".".join(names[1:3]) if names[1] == "operators" and len(names) > 2 else names[1]


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_every_part_has_a_floor() -> None:
    parts = {part for module in MODULES if (part := _part(module)) is not None}
    assert parts - {"operators"} == FLOOR.keys()


def test_a_part_imports_from_lower_floors_only() -> None:
    wrong = [
        f"{module} imports {name}"
        for module in MODULES
        if (part := _part(module)) in FLOOR
        for name in imports(module, at_once=False)
        if (other := _part(name)) in FLOOR and other != part and FLOOR[other] >= FLOOR[part]
    ]

    assert not wrong


def test_imports_have_no_circle() -> None:
    parts: dict[str, set[str]] = {part: set() for part in FLOOR}
    for module in MODULES:
        if (part := _part(module)) in FLOOR:
            others = {_part(name) for name in imports(module, at_once=False)}
            parts[part] |= {other for other in others if other in FLOOR and other != part}
    modules = {
        module: {name for name in imports(module, at_once=True) if not _within(module, name)}
        for module in MODULES
    }

    assert list(TopologicalSorter(parts).static_order())
    assert list(TopologicalSorter(modules).static_order())


@pytest.mark.parametrize("package", WITHOUT)
def test_a_part_does_without(package: str) -> None:
    """Neither it nor anything that it imports needs these."""
    modules = [module for module in MODULES if _within(module, package)]
    wrong = {
        f"{module} imports {name} by {by}"
        for module in modules
        for name, by in _all_imports(module).items()
        if any(_within(name, without) for without in WITHOUT[package])
    }

    assert modules
    assert not wrong


@pytest.mark.parametrize("module", ["endmark.pipeline", "endmark.cli.app"])
def test_imports_are_light(module: str) -> None:
    """A file is checked without what reads and computes; a command imports what it needs when it runs.

    With SQLAlchemy, the command line took 0.6 s of CPU instead of 0.3 s, before a job could start Java.
    """
    found = {module}
    left = list(found)
    while left:
        new = imports(left.pop(), at_once=True) - found
        found |= new
        left += [name for name in new if name in MODULES]

    assert "pydantic" in found
    assert not found & {"pyarrow", "numpy", "pyspark", "duckdb", "sqlalchemy", "kafka"}


def test_pyspark_is_imported_in_two_rooms() -> None:
    """The command line and the jars only look for its files."""
    rooms = {
        ".".join(module.split(".")[:2])
        for module in MODULES
        if module.startswith(("endmark.", "endmark_feed", "endmark_ops", "endmark_papers"))
        and any(_within(name, "pyspark") for name in imports(module, at_once=False))
    }

    assert rooms == {"endmark.spark", "endmark.frame"}


@pytest.mark.parametrize("package", ["endmark", "endmark_feed", "endmark_ops"])
def test_the_product_knows_no_laboratory(package: str) -> None:
    wrong = {
        f"{module} imports {name}"
        for module in MODULES
        if _within(module, package)
        for name in imports(module, at_once=False)
        if name.startswith(("endmark_papers", "endmark_benchmarks"))
    }

    assert not wrong
