"""House rules of the tree: what must not be in it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Folders without unit tests of their own: they need real parts, or the task of a bucket runs them.
ELSEWHERE = {
    "embedded": "stack/test_embedded_*.py",
    "engine/ingest": "unit/engine/bucket/test_bucket_task.py",
    "verify/formats": "oracle/test_formats.py",
}


def test_the_layout_is_the_tree() -> None:
    """The listing in ARCHITECTURE.md has what `jobs/endmark` has, two levels deep, and nothing else."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    listing = page[page.index("  endmark/\n") :].split("\nservices/")[0]
    listed = {
        (len(indent), name) for indent, name in re.findall(r"^( +)([\w./]+)(?= |$)", listing, re.MULTILINE)
    }
    package = ROOT / "jobs" / "endmark"
    first = {(4, _shown(path)) for path in _children(package)}
    folders = [path for path in _children(package) if path.is_dir()]
    second = {(6, _shown(path)) for folder in folders for path in _children(folder) if path.is_dir()}

    assert listed - {(2, "endmark/")} == first | second


def _children(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.iterdir()
        if not path.name.startswith("__") and (path.suffix == ".py" or path.is_dir())
    ]


def _shown(path: Path) -> str:
    return f"{path.name}/" if path.is_dir() else path.name


def test_unit_tests_mirror_the_tree() -> None:
    """A folder of `tests/unit` is one of a package's."""
    unit = ROOT / "tests" / "unit"
    sources = {path.name: path for path in ROOT.glob("*/endmark*") if path.is_dir()}
    folders = [path.relative_to(unit) for path in unit.rglob("*") if any(path.glob("test_*.py"))]
    lost = [
        str(folder)
        for folder in folders
        if folder.parts[0] not in sources and not (sources["endmark"] / folder).is_dir()
    ]

    assert folders
    assert not lost


def test_the_tree_has_its_unit_tests() -> None:
    """Each folder of `jobs/endmark` with modules has its own in `tests/unit`, or is in `ELSEWHERE`."""
    tests, package = ROOT / "tests", ROOT / "jobs" / "endmark"
    modules = [path for path in package.rglob("*.py") if path.name != "__init__.py"]
    folders = {path.parent.relative_to(package) for path in modules}
    bare = {str(folder) for folder in folders if not any((tests / "unit" / folder).glob("**/test_*.py"))}

    assert bare == ELSEWHERE.keys()
    assert all(any(tests.glob(files)) for files in ELSEWHERE.values())


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
    named = re.findall(r'^    "([\w/]+/test_\w+\.py)",$', written, re.MULTILINE)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []
