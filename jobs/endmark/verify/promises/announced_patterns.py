"""Tells the rows that announced patterns match, of which some columns are known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from endmark.pipeline.stage import Stage
from endmark.verify.session import Session, text


def matched(session: Session, stage: Stage, table: str, columns: Mapping[str, str]) -> str:
    """Return the SQL of whether a pattern matches whatever result of a stage has some known values.

    Args:
        session: the session.
        stage: the stage.
        table: the table of patterns.
        columns: SQL of the known values, by the columns of results that have them.
    """
    return f"coalesce({' OR '.join(_conditions(session, stage, table, columns)) or 'false'}, false)"


def _conditions(session: Session, stage: Stage, table: str, columns: Mapping[str, str]) -> Iterator[str]:
    # A column of the join key is never null in an input that is there, so all of its values are all rows.
    whole = {column for given in stage.present_inputs for column in stage.key_columns(given)}
    for row in session.run("SELECT DISTINCT punctuation FROM $table", table=table):
        patterns: dict[str, Any] = {
            column: pattern
            for column, pattern in json.loads(row["punctuation"]).items()
            if not (column in whole and pattern == {"between": {}})
        }
        if not patterns:
            yield "true"
        elif patterns.keys() <= columns.keys():
            yield " AND ".join(_condition(columns[column], pattern) for column, pattern in patterns.items())


def _condition(value: str, pattern: dict[str, Any]) -> str:
    ((kind, among),) = pattern.items()
    if kind != "between":
        listed = [among] if kind == "equals" else among
        return f"{value} IN ({', '.join(text(str(each)) for each in listed)})"
    bounds = [f"{value} IS NOT NULL"]
    for end, sign in (("from", ">"), ("to", "<")):
        if end in among:
            equal = "" if among.get(f"{end}_open") else "="
            bounds.append(f"{value} {sign}{equal} {text(str(among[end]))}")
    return f"({' AND '.join(bounds)})"
