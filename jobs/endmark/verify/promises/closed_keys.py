"""Finds a stream's closed keys: keys that it names, and keys that a pattern in each partition matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from endmark.pipeline import Stream
from endmark.pipeline.stage import Stage
from endmark.types import ColumnType
from endmark.verify.formats.patterns import Bound
from endmark.verify.join.sides import key_column, stream_names
from endmark.verify.judge.unions import close_union, unite_promises
from endmark.verify.promises.order import gather_patterns
from endmark.verify.session import Session, fill, name, names

_PUNCTUATIONS = """
CREATE TABLE $punctuations AS
SELECT "partition", "offset" FROM $promises UNION SELECT "partition", "offset" FROM arriving
"""

# Punctuations name keys. So do the processed rows of a stream with unique keys, and the rows that end runs in
# a stream with clustered keys.
_NAMED = """
CREATE TABLE $named AS
SELECT $key, "partition" FROM $promises UNION
SELECT $named_key, $partition AS "partition" FROM $judged WHERE $by_row
"""

# A key that the other stream names may be final without a row.
_MENTIONED = "SELECT $named_key FROM $rows UNION SELECT $key FROM $named"

# A pattern does not say which partition has its keys, so every partition must have one that matches the key.
_CLOSED = """
CREATE TABLE $closed AS
SELECT $key FROM $named UNION
SELECT $key FROM mentioned k JOIN $closing q ON $within
GROUP BY ALL HAVING count(DISTINCT q."partition") = (SELECT count(*) FROM ranges WHERE topic = ?)
"""

# With `punctuation_scope: topic` any partition may have a key. A promise that names the key then holds for
# its own partition only, as a pattern does.
_CLOSED_BY_ALL = """
CREATE TABLE $closed AS
SELECT $key FROM (
    SELECT $key, "partition" FROM $named UNION
    SELECT $key, q."partition" FROM mentioned k JOIN $closing q ON $within
) GROUP BY ALL HAVING count(DISTINCT "partition") = (SELECT count(*) FROM ranges WHERE topic = ?)
"""

_WITHIN = """coalesce(list_contains(q.$among, $key), true)
    AND CASE WHEN q.$low_open THEN $key > q.$low ELSE coalesce($key >= q.$low, true) END
    AND CASE WHEN q.$high_open THEN $key < q.$high ELSE coalesce($key <= q.$high, true) END"""


def load(
    session: Session,
    stream: str,
    declared: Stream,
    kinds: dict[str, ColumnType],
    others: Sequence[tuple[dict[str, Any], Mapping[str, Bound]]],
) -> None:
    """Load the punctuations of a stream that are not in `promises_<stream>` yet.

    The keys that they name are added to `promises_<stream>`. Other punctuations that restrict only columns of
    the key become `patterns_<stream>`, and the rest becomes `wider_<stream>`. A heartbeat on a column that is
    not in `punctuated_on` becomes neither. `punctuations_<stream>` gets partition and offset of all
    punctuations.

    Args:
        session: the session.
        stream: the name of the stream.
        declared: the stream in the pipeline file.
        kinds: the types of the columns of the join key, by name.
        others: the punctuations, each as a record with `partition` and `offset`, and what it restricts.
    """
    key = tuple(kinds)
    places = [{"partition": record["partition"], "offset": record["offset"]} for record, _ in others]
    sound = [
        (place, found)
        for place, (_, found) in zip(places, others, strict=True)
        if found.keys() <= set(declared.punctuated_on)
    ]
    named = [
        place | {key_column(column): value for column, value in one.items()}
        for place, found in sound
        for one in named_keys(found, key)
    ]
    unnamed = [(place, found) for place, found in sound if not named_keys(found, key)]
    patterns = [each for each in unnamed if each[1].keys() <= set(key)]
    wider = [each for each in unnamed if not each[1].keys() <= set(key)]
    closing = {key_column(column): kind.arrow for column, kind in kinds.items()}
    arriving = pa.Table.from_pylist(named, _schema(closing))
    session.run_on(
        arriving, "INSERT INTO $promises SELECT * FROM arriving", promises=name(f"promises_{stream}")
    )
    arriving = pattern_rows(kinds, patterns)
    session.run_on(arriving, "CREATE TABLE $patterns AS FROM arriving", patterns=name(f"patterns_{stream}"))
    known = declared.columns | kinds
    restricted = {column: known[column] for column in wider_columns(declared, key)}
    arriving = pattern_rows(restricted, wider)
    session.run_on(arriving, "CREATE TABLE $wider AS FROM arriving", wider=name(f"wider_{stream}"))
    session.run_on(
        pa.Table.from_pylist(places, _schema({})),
        _PUNCTUATIONS,
        punctuations=name(f"punctuations_{stream}"),
        promises=name(f"promises_{stream}"),
    )


def pattern_rows(
    kinds: Mapping[str, ColumnType], patterns: Sequence[tuple[dict[str, Any], Mapping[str, Bound]]]
) -> pa.Table:
    """Return patterns as rows that `within` can match.

    Args:
        kinds: the types of the columns that patterns may restrict, by name.
        patterns: the `partition` and `offset` of each pattern, and what it restricts.
    """
    rows = [place | _columns(found) for place, found in patterns]
    return pa.Table.from_pylist(rows, _schema(_pattern_columns(kinds)))


def load_promises(
    session: Session,
    table: str,
    kinds: dict[str, ColumnType],
    promises: Sequence[tuple[Mapping[str, Bound], bool]],
    first: int = 0,
) -> None:
    """Make a table like `patterns_<stream>` of the promises of a derived stream, with a column `sure`.

    Args:
        session: the session.
        table: the table, in SQL.
        kinds: the types of the columns that promises may restrict, by name.
        promises: what each promise restricts, and whether it is sure.
        first: the offset of the first promise.
    """
    rows = [
        {"partition": 0, "offset": number, "sure": sure, **_columns(found)}
        for number, (found, sure) in enumerate(promises, first)
    ]
    schema = _schema(_pattern_columns(kinds) | {"sure": pa.bool_()})
    session.run_on(pa.Table.from_pylist(rows, schema), "CREATE TABLE $table AS FROM arriving", table=table)


def wider_columns(declared: Stream, key: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that `wider_<stream>` has; those of the key if the table stays empty."""
    return declared.promised_on or key


def close_keys(session: Session, stage: Stage) -> None:
    """Make `closed_<stream>` for each stream of a stage: its closed keys that rows or promises name.

    `mentioned` has the keys of the stage that rows or promises name.
    """
    pipeline, key = stage.pipeline, names([key_column(column) for column in stage.key])
    streams = [stream for given in stage.streams for stream in pipeline.flow.members_of(given)]
    unions = [given for given in stage.streams if given in pipeline.flow.unions]
    for stream in streams:
        processed = """violation IS NULL OR "#filtered" AND "#came" IS NOT NULL"""
        by_row = processed if pipeline.streams[stream].unique else '"#came" IS NOT NULL'
        session.run(_NAMED, by_row=by_row, **stream_names(pipeline, stream))
    for union in unions:
        unite_promises(session, pipeline, union, ["named"])
    mentioned = [fill(_MENTIONED, **stream_names(pipeline, given)) for given in stage.inputs]
    session.run("CREATE OR REPLACE TABLE mentioned AS $all", all=" UNION ".join(mentioned))
    keys = {column: f"k.{name(key_column(column))}" for column in stage.key}
    for stream in streams:
        declared = pipeline.streams[stream]
        gather_patterns(session, pipeline, stream)
        session.run(
            _CLOSED if declared.punctuation_scope == "partition" else _CLOSED_BY_ALL,
            [declared.topic],
            closed=name(f"closed_{stream}"),
            named=name(f"named_{stream}"),
            closing=name(f"closing_{stream}"),
            key=key,
            within=within(keys),
        )
    for union in unions:
        unite_promises(session, pipeline, union, ["closing"])
        close_union(session, pipeline, union, stage.key)


def within(keys: dict[str, str]) -> str:
    """Return the condition that a pattern `q` matches a key.

    Args:
        keys: an SQL expression for each column of the key.
    """
    conditions = []
    for column, expression in keys.items():
        own = {part: name(f"{key_column(column)}_{part}") for part in _PARTS}
        conditions.append(fill(_WITHIN, key=expression, **own))
    return " AND ".join(conditions)


_PARTS = ("among", "low", "high", "low_open", "high_open")


def named_keys(found: Mapping[str, Bound], key: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the keys that a punctuation names: one value of each column, or several of a single one."""
    if not found.keys() <= set(key):
        return []
    values = {column: sorted(bound.among) for column, bound in found.items() if bound.among is not None}
    if len(values) < len(key) or (len(key) > 1 and any(len(several) > 1 for several in values.values())):
        return []
    if len(key) == 1:
        return [{key[0]: value} for value in values[key[0]]]
    return [{column: several[0] for column, several in values.items()}] if all(values.values()) else []


def _columns(found: Mapping[str, Bound]) -> dict[str, Any]:
    return {
        f"{key_column(column)}_{part}": sorted(value) if isinstance(value, frozenset) else value
        for column, bound in found.items()
        for part, value in vars(bound).items()
    }


def _pattern_columns(kinds: Mapping[str, ColumnType]) -> dict[str, pa.DataType]:
    columns: dict[str, pa.DataType] = {}
    for column, kind in kinds.items():
        types = (pa.list_(kind.arrow), kind.arrow, kind.arrow, pa.bool_(), pa.bool_())
        columns |= {f"{key_column(column)}_{part}": each for part, each in zip(_PARTS, types, strict=True)}
    return columns


def _schema(columns: dict[str, pa.DataType]) -> pa.Schema:
    return pa.schema([("partition", pa.int32()), ("offset", pa.int64()), *columns.items()])
