"""Applies closing rules: a row that meets its stream's rule is also a punctuation at its own offset."""

from __future__ import annotations

from endmark.pipeline import COORDINATES, Stream
from endmark.verify.join.sides import key_column
from endmark.verify.judge.conditions import keep_where
from endmark.verify.session import Session, name

# The condition uses the stream's own column names, so the table has these. No column of a stream has a `#`.
_ROWS = """
CREATE TABLE $rows_by_name AS
SELECT $partition AS "##partition", $offset AS "##offset", $columns FROM $rows r
"""

_LAST = """
INSERT INTO $promises BY NAME
SELECT "##partition" AS "partition", "##offset" AS "offset", $promised FROM $kept
"""


def close_by_rule(session: Session, stream: str, declared: Stream, key: tuple[str, ...], rows: str) -> None:
    """Apply a stream's closing rule to its rows.

    The keys that rows close are added to `promises_<stream>`, and all other promises of rows to
    `patterns_<stream>` or `wider_<stream>`.

    Args:
        session: the session.
        stream: the name of the stream.
        declared: the stream in the pipeline file.
        key: the columns of the join key.
        rows: SQL of the table of rows, with the stream's own columns.

    Raises:
        ConfigError: `when` is no condition over the stream's columns.
    """
    rule = declared.closes
    if rule is None:
        return
    if set(rule.on) == set(key):
        table = "promises"
        promised = [f"{name(column)} AS {name(key_column(column))}" for column in rule.on]
    else:
        table = "patterns" if set(rule.on) <= set(key) else "wider"
        promised = [
            f"{value} AS {name(f'{key_column(column)}_{part}')}"
            for column in rule.on
            for part, value in (
                ("among", f"[{name(column)}]"),
                ("low_open", "false"),
                ("high_open", "false"),
            )
        ]
    partition, offset = (f"{stream}_{coordinate}" for coordinate in COORDINATES)
    table_of_rows = f"by_rule_{stream}"
    session.run(
        _ROWS,
        rows_by_name=name(table_of_rows),
        partition=name(partition),
        offset=name(offset),
        columns=", ".join(f"{name(f'{stream}_{column}')} AS {name(column)}" for column in declared.columns),
        rows=rows,
    )
    field = f"streams.{stream}.closes.when"
    keep_where(session, table_of_rows, list(declared.columns), rule.when, field)
    session.run(
        _LAST,
        promises=name(f"{table}_{stream}"),
        promised=", ".join(promised),
        kept=name(f"{table_of_rows}_kept"),
    )
