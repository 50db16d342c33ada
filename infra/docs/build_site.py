"""Build the docs site in var/docs.

Pages outside of docs/, such as the README, become pages of the site. Other files that pages link to, such as
examples, are copied to `source/`, so that every link works without the project's tree. A link to a folder
becomes plain text.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import dirname, normpath, relpath

ROOT = Path(__file__).parents[2]
PAGES, BUILD = ROOT / "var" / "docs" / "pages", ROOT / "var" / "docs"
# The site's name of each page outside of docs/.
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "tests/README.md": "tests/README.md",
}
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<to>[^)#\s:]+)(?P<anchor>#[^)]*)?\)")
_CODE = re.compile(r"(```.*?```)", re.DOTALL)


def main() -> None:
    """Write the pages, and let zensical make the site of them. A broken link ends the build."""
    shutil.rmtree(BUILD, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    docs = [str(page.relative_to(ROOT / "docs")) for page in sorted((ROOT / "docs").rglob("*.md"))]
    for path, name in [*((f"docs/{name}", name) for name in docs), *OUTSIDE.items()]:
        _write(path, name)
    shutil.copy(Path(__file__).parent / "zensical.toml", BUILD)
    subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=BUILD, check=True)


def _write(path: str, name: str) -> None:
    """Write a page, with each link made one of the site."""
    parts = _CODE.split((ROOT / path).read_text())
    moved = [
        part if part.startswith("```") else _LINK.sub(lambda link: _moved(link, path, name), part)
        for part in parts
    ]
    (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
    (PAGES / name).write_text("".join(moved))


def _moved(link: re.Match[str], path: str, name: str) -> str:
    target = normpath(f"{dirname(path)}/{link['to']}" if dirname(path) else link["to"])
    if (ROOT / target).is_dir():
        return link["text"]
    if target in OUTSIDE:
        to = OUTSIDE[target]
    elif target.startswith("docs/"):
        to = target.removeprefix("docs/")
    elif target.startswith("..") or not (ROOT / target).is_file():
        return link[0]  # a broken link, which zensical reports
    else:
        to = f"source/{target}"
        (PAGES / to).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / target, PAGES / to)
    return f"[{link['text']}]({relpath(to, dirname(name) or '.')}{link['anchor'] or ''})"


if __name__ == "__main__":
    main()
