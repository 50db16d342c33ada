"""Closing rules: rows that meet one count as punctuations at their own offsets."""

from __future__ import annotations

from endmark.pipeline import COORDINATES, Stream
from endmark.verify.conditions import keep_where
from endmark.verify.join_sides import key_column
from endmark.verify.session import Session, name

# The condition names the stream's own columns, so these are by their own names; none has a `#`.
_ROWS = """
CREATE TABLE $rows_by_name AS
SELECT $partition AS "##partition", $offset AS "##offset", $columns FROM $rows
"""

_LAST = """
INSERT INTO $promises BY NAME SELECT "##partition" AS "partition", "##offset" AS "offset", $said FROM $kept
"""


def close_by_rule(session: Session, stream: str, declared: Stream, key: tuple[str, ...]) -> None:
    """Apply a stream's closing rule to its rows.

    Adds the keys that rows close to `promises_<stream>`, and all other promises of rows to
    `patterns_<stream>` or `wider_<stream>`.

    Args:
        session: the session.
        stream: the stream's name.
        declared: the stream in the pipeline file.
        key: the columns of the join's key.

    Raises:
        ConfigError: `when` is no condition over the stream's columns.
    """
    rule = declared.closes
    if rule is None:
        return
    if set(rule.on) == set(key):
        table = "promises"
        said = [f"{name(column)} AS {name(key_column(column))}" for column in rule.on]
    else:
        table = "patterns" if set(rule.on) <= set(key) else "wider"
        said = [
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
        rows=name(f"rows_{stream}"),
    )
    field = f"streams.{stream}.closes.when"
    keep_where(session, table_of_rows, list(declared.columns), rule.when, field)
    session.run(
        _LAST,
        promises=name(f"{table}_{stream}"),
        said=", ".join(said),
        kept=name(f"{table_of_rows}_kept"),
    )
