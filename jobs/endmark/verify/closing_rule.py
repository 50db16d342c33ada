"""What rows say that meet their stream's closing rule: they count as punctuations at their own offsets."""

from __future__ import annotations

import duckdb

from endmark.errors import ConfigError
from endmark.pipeline import COORDINATES, Stream
from endmark.verify.session import Session, condition, name
from endmark.verify.sides import key_column

# The condition names the stream's own columns, so these are by their own names; none has a `#`.
_LAST = """
INSERT INTO $promises BY NAME
SELECT "##partition" AS "partition", "##offset" AS "offset", $said FROM (
    SELECT $partition AS "##partition", $offset AS "##offset", $columns FROM $rows
) WHERE ($when)
"""


def close_by_rule(session: Session, stream: str, declared: Stream, key: tuple[str, ...]) -> None:
    """Add to `promises_<stream>` the keys that rows close, to `patterns_<stream>` or `wider_<stream>` what
    they say otherwise.

    Raises:
        ConfigError: `when` is no condition that can be asked of all rows.
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
    try:
        session.run(
            _LAST,
            promises=name(f"{table}_{stream}"),
            said=", ".join(said),
            partition=name(partition),
            offset=name(offset),
            columns=", ".join(
                f"{name(f'{stream}_{column}')} AS {name(column)}" for column in declared.columns
            ),
            rows=name(f"rows_{stream}"),
            when=condition(rule.when),
        )
    except duckdb.Error as error:
        raise ConfigError(f"streams.{stream}.closes.when: {error}") from error
