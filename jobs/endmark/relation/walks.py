"""Finds the tables that a statement walks through from one end to the other, by the database's own plan."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from endmark.relation.backend import backend_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import sqlalchemy as sa

# A small table is walked through even if it has an index, since this is faster. With these settings, servers
# walk through a table only if they have no other way.
_BY_INDEX = {"mysql": "SET max_seeks_for_key = 1", "postgresql": "SET enable_seqscan = off"}
_EXPLAIN = {
    "sqlite": "EXPLAIN QUERY PLAN ",
    "mysql": "EXPLAIN ",
    "postgresql": "EXPLAIN (FORMAT JSON) ",
}
_DERIVED = re.compile(r"(?:MATERIALIZE|CO-ROUTINE) (\S+)")
_SCANNED = re.compile(r"SCAN (?:TABLE )?([^\s(]\S*)")


def walked_tables(connection: sa.Connection, statement: str, values: Sequence[Any]) -> list[str]:
    """Return the tables, as the plan names them, of which a statement reads all rows or a whole index.

    Args:
        connection: a connection, which is closed afterwards, since its settings change.
        statement: SQL with the driver's own placeholders.
        values: the values of the placeholders, in order.
    """
    connection.detach()
    backend = backend_of(connection.engine.url)
    if backend in _BY_INDEX:
        connection.exec_driver_sql(_BY_INDEX[backend])
    rows = connection.exec_driver_sql(_EXPLAIN[backend] + statement, tuple(values)).mappings().all()
    if backend == "mysql":
        walked = {row["table"] for row in rows if row["type"] in ("ALL", "index")}
        # A part that was computed has a name such as <derived2>, and other lines say how.
        return sorted(table for table in walked if not table.startswith("<"))
    if backend == "sqlite":
        steps = [row["detail"] for row in rows]
        derived = {step[1] for step in map(_DERIVED.match, steps) if step}
        scanned = {step[1] for step in map(_SCANNED.match, steps) if step}
        return sorted(scanned - derived - {"CONSTANT"})
    plans = rows[0]["QUERY PLAN"]
    plans = json.loads(plans) if isinstance(plans, str) else plans
    return sorted({table for plan in plans for table in _walked_by(plan["Plan"])})


def _walked_by(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the tables that a node of PostgreSQL's plan, or a node below it, walks through."""
    kind = plan["Node Type"]
    if kind == "Seq Scan" or (kind in ("Index Scan", "Index Only Scan") and "Index Cond" not in plan):
        yield plan["Relation Name"]
    for each in plan.get("Plans", ()):
        yield from _walked_by(each)
