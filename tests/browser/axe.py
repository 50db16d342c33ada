"""axe-core, which finds what keeps people with disabilities from using a page.

npm fetches it once, at the version named here. It is not part of the repository, since it is under another
license and half a megabyte.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
_KEPT = Path(__file__).parents[2] / f"var/axe-core-{VERSION}.min.js"
_SHOWN = (("dark", 390), ("light", 390), ("dark", 1280), ("light", 1280))
_RUN = """async () => {
    const {violations} = await axe.run(document, {resultTypes: ["violations"]});
    const told = ({html, any}) => [html, any.map(({message}) => message)];
    return violations.map(({id, nodes}) => [id, nodes.map(told)]);
}"""


def axe_script(directory: Path) -> str:
    """Return the script, which npm fetches once.

    Args:
        directory: a directory for files on the way.

    Raises:
        AssertionError: npm is missing, or the script is not the one that was pinned.
    """
    if not _KEPT.exists():
        npm = shutil.which("npm")
        assert npm is not None, "npm, which fetches axe-core, is missing: run infra/install-test-system.sh"
        command = [npm, "pack", f"axe-core@{VERSION}", "--silent"]
        subprocess.run(command, cwd=directory, check=True, timeout=120, stdout=subprocess.DEVNULL)
        with tarfile.open(directory / f"axe-core-{VERSION}.tgz") as packed:
            script = packed.extractfile("package/axe.min.js")
            assert script is not None
            _KEPT.parent.mkdir(exist_ok=True)
            _KEPT.write_bytes(script.read())
    assert hashlib.sha256(_KEPT.read_bytes()).hexdigest() == SHA256, f"{_KEPT} is another one; delete it"
    return _KEPT.read_text()


def violations(page: Page, script: str) -> list[Any]:
    """Run axe-core on a page, light and dark, wide and small.

    Returns:
        for each broken rule the colour scheme, the width in pixels, the rule's name, and the elements that
        break it.
    """
    found: list[Any] = []
    for scheme, width in _SHOWN:
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.evaluate(script)
        found += [(scheme, width, *each) for each in page.evaluate(_RUN)]
    return found
