"""Rules that records and rows must keep. A query finds the rows that break a rule; a report shows a few."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from endmark.verify.report import Breach
from endmark.verify.session import Session, fill

EXAMPLES = 10

_FIRST = """
WITH found AS ($query) SELECT *, count(*) OVER () AS "#found" FROM found LIMIT ?
"""


def breach(
    session: Session, rule: str, query: str, values: list[Any] | None = None, **fragments: str
) -> Breach | None:
    """Return the breach of a rule; `None` if no row breaks it.

    Args:
        session: the session.
        rule: the rule in words.
        query: the query that finds the rows that break the rule, with `$x` for the fragment `x`.
        values: the parameters of the query; `None` for no parameters.
        fragments: SQL texts to put into the query.
    """
    rows = session.run(_FIRST, [*(values or []), EXAMPLES], query=fill(query, **fragments))
    if not rows:
        return None
    times = rows[0]["#found"]
    for row in rows:
        del row["#found"]
    return Breach(rule=rule, times=times, examples=[readable(row) for row in rows])


def readable(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with values that JSON can hold."""
    return {column: _readable_value(value) for column, value in row.items()}


def _readable_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value
