"""The results of benchmarks that HYBRIDJOIN's figures draw their times from.

Times are those of the engine's own lookups. They need a database, so they are measured with the benchmarks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def read(name: str) -> dict[str, Any]:
    """Return a file of results, such as `costs.json`."""
    found: dict[str, Any] = json.loads((RESULTS / name).read_text())
    return found
