"""A table of rows or keys a second, by read of a relation and by driver."""

from __future__ import annotations

from typing import Any

from endmark_papers.experiments.report import Table


def relation_tables(report: dict[str, Any]) -> list[Table]:
    drivers: dict[str, dict[str, int]] = report["drivers"]
    kinds = next(iter(drivers.values()))
    rows = [[kind, *(f"{rates[kind]:,}" for rates in drivers.values())] for kind in kinds]
    return [Table("Rows or keys a second, by driver", ("read", *drivers), rows)]
