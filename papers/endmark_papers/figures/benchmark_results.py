"""The results of benchmarks from which some figures are drawn.

They are measured with the benchmarks, since the papers' own package has no database and no cost model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def read(name: str) -> Any:
    """Return what a file of results, such as `costs.json`, has as JSON."""
    return json.loads((RESULTS / name).read_text())
