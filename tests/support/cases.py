"""How hard the oracle tries: `make oracle` asks for more cases than `make test`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

CASES = "ENDMARK_ORACLE_CASES"
IN_HASTE = "ENDMARK_ORACLE_IN_HASTE"  # a mutant's counterexample need not be small


def cases(usual: int) -> settings:
    """Settings of a random test that runs `usual` cases unless the environment says how many."""
    chosen = settings(
        max_examples=int(os.environ.get(CASES, usual)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    if IN_HASTE in os.environ:
        return settings(chosen, phases=[Phase.explicit, Phase.generate], database=None)
    return chosen
