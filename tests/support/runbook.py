"""The commands of docs/runbook.md."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "runbook.md"
_BLOCK = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_COMPOSE = "docker compose "


def blocks(*, compose: bool) -> list[str]:
    """Those for the stack of docker-compose.yml, or the others."""
    found = [textwrap.dedent(each[2]) for each in _BLOCK.finditer(_PAGE.read_text())]
    return [block for block in found if block.startswith(_COMPOSE) == compose]
