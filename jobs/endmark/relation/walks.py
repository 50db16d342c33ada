"""Finds the tables that a statement walks through from one end to the other, by the database's own plan."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from endmark.relation.backend import backend_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import sqlalchemy as sa

# A small table is walked through even if it has an index, since this is faster. With this setting, PostgreSQL
# walks through a table only if it has no other way.
_BY_INDEX = "SET enable_seqscan = off"
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
    if backend == "postgresql":
        connection.exec_driver_sql(_BY_INDEX)
    rows = connection.exec_driver_sql(_EXPLAIN[backend] + statement, tuple(values)).mappings().all()
    if backend == "mysql":
        # A part that was computed has a name such as <derived2>, and other lines say how.
        return sorted(
            {row["table"] for row in rows if row["table"] and row["table"][0] != "<" and _is_walk(row)}
        )
    if backend == "sqlite":
        steps = [row["detail"] for row in rows]
        derived = {step[1] for step in map(_DERIVED.match, steps) if step}
        scanned = {step[1] for step in map(_SCANNED.match, steps) if step}
        return sorted(scanned - derived - {"CONSTANT"})
    plans = rows[0]["QUERY PLAN"]
    plans = json.loads(plans) if isinstance(plans, str) else plans
    return sorted({table for plan in plans for table in _walked_by(plan["Plan"])})


def _is_walk(row: sa.RowMapping) -> bool:
    """Return whether a line of MySQL's or MariaDB's plan walks through a table for lack of another way.

    If the table has an index that finds its rows (`possible_keys`), it is small, or most of it is asked for.
    In a part of the view that is computed by itself, the index may be for something else than the key.
    """
    if row["type"] == "ALL" and row["select_type"] in ("SIMPLE", "PRIMARY"):
        return row["possible_keys"] is None
    return row["type"] in ("ALL", "index")


def _walked_by(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the tables that a node of PostgreSQL's plan, or a node below it, walks through."""
    kind = plan["Node Type"]
    if kind == "Seq Scan" or (kind in ("Index Scan", "Index Only Scan") and "Index Cond" not in plan):
        yield plan["Relation Name"]
    for each in plan.get("Plans", ()):
        yield from _walked_by(each)
