"""How hard the oracle tries: `make oracle` asks for more cases than `make test`."""

from __future__ import annotations

import os
from math import ceil

from hypothesis import HealthCheck, Phase, settings

CASES = "ENDMARK_ORACLE_CASES"
IN_HASTE = "ENDMARK_ORACLE_IN_HASTE"  # a mutant's counterexample need not be small


def cases(usual: int, among: int = 1) -> settings:
    """Settings of a random test that runs `usual` cases or, if that is more, its share of what the
    environment asks for when an operator's cases are divided `among` several tests."""
    chosen = settings(
        max_examples=max(usual, ceil(int(os.environ.get(CASES, "0")) / among)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    if IN_HASTE in os.environ:
        return settings(chosen, phases=[Phase.explicit, Phase.generate], database=None)
    return chosen
