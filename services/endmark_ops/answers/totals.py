"""The samples of a batch sorted into metrics, in the order of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping

from endmark.metrics import CATALOGUE, parse

LabelledValue = tuple[dict[str, str], float]


def by_name(samples: Mapping[str, float]) -> dict[str, list[LabelledValue]]:
    """Return the series of each metric by its name, sorted by their labels.

    The metrics come in the order of the catalogue. Names that this version does not know come last.

    >>> by_name({"state_rows{stream=bids}": 2.0, "rows_total": 1.0})
    {'rows_total': [({}, 1.0)], 'state_rows': [({'stream': 'bids'}, 2.0)]}
    """
    found: dict[str, list[LabelledValue]] = {}
    for key in sorted(samples):
        name, labels = parse(key)
        found.setdefault(name, []).append((labels, samples[key]))
    known = [name for name in CATALOGUE if name in found]
    unknown = [name for name in found if name not in CATALOGUE]
    return {name: found[name] for name in known + unknown}
