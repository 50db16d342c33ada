"""The digest of results in Pathway, and the run that counts them, in a process of the Python that has it."""

from __future__ import annotations

import json
import time
from typing import Any

from endmark_benchmarks.harness.digest import CODES, DIVISORS, WEIGHTS


def code(*numbers: Any) -> Any:
    """Return the code of one side of a result, as `code` of `harness/digest.py` has it in SQL."""
    weighted = [weight * number for weight, number in zip(WEIGHTS, numbers, strict=False)]
    return sum(weighted[1:], weighted[0]) % CODES


def answer(pw: Any, results: Any, left: Any, right: Any) -> None:
    """Run everything to its end, and print the digest and the seconds that it took as a line of JSON.

    The seconds go from the start of the engine to the last result.

    Args:
        pw: the module of Pathway.
        results: the table of the results.
        left, right: the codes of both sides of a result.
    """
    high, low = (pw.reducers.sum(pw.this.product % divisor) for divisor in DIVISORS)
    figures = results.select(product=left * right).reduce(rows=pw.reducers.count(), high=high, low=low)
    last: dict[str, Any] = {}

    def heard(row: dict[str, Any], is_addition: bool, **_: Any) -> None:
        if is_addition:
            last.update(row, at=time.monotonic())

    pw.io.subscribe(figures, heard)
    began = time.monotonic()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    given = [last["rows"], last["high"], last["low"]]
    print(json.dumps({"given": given, "seconds": last["at"] - began}))
