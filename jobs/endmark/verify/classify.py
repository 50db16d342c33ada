"""Tells rows, punctuations and dead letters apart, with DuckDB's JSON functions made strict.

DuckDB reads JSON by yyjson with three leniencies on: NaN and Infinity, a trailing comma, and numbers of any
size. The first and last are screened by type and range, the comma by a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable

from endmark.pipeline import COORDINATES, Pipeline, Stream
from endmark.types import ColumnType
from endmark.verify.session import Session, fill, name, text

MARK = "$punctuation"
TIMESTAMP = r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?Z"

_WORDS = "('UBIGINT', 'BIGINT')"
_NUMBERS = "('UBIGINT', 'BIGINT', 'DOUBLE')"

_DEAD_LETTERS = """
CREATE TABLE expected_dead_letters (topic VARCHAR, "partition" INTEGER, "offset" BIGINT, value BLOB)
"""

# `document` is the text of well-formed JSON only: the JSON functions raise on anything else.
# A member may hold a comma and a brace, but then a quote stands between them and the end of a flat object.
_CLASSIFY = r"""
CREATE TABLE $classified AS
WITH texts AS (
    SELECT "partition", "offset", try(decode(value)) AS body FROM records WHERE topic = ?
), documents AS (
    SELECT "partition", "offset",
        CASE WHEN json_valid(body) AND NOT regexp_matches(body, ',\s*\}\s*$$') THEN body END AS document
    FROM texts
), members AS (
    SELECT "partition", "offset", document, json_keys(document) AS members,
        json_type(document, $paths) AS kinds, json_extract_string(document, $paths) AS texts
    FROM documents
), fields AS (
    SELECT "partition" AS part, "offset" AS off, $promised AS promised,
        coalesce(list_sort(members) = list_sort($declared), false) AS complete, $fields
    FROM members
)
SELECT *, complete AND $present AS sound FROM fields
"""

# With its members' names known to hold no comma, any comma before a brace is a trailing one.
_PROMISED = r"""
CASE WHEN members = [$mark]
    AND json_keys(document, '/' || $mark) = [$on]
    AND json_keys(document, '/' || $mark || '/' || $on) = ['equals']
    AND json_type(document, '/' || $mark || '/' || $on || '/equals') IN $words
    AND NOT regexp_matches(document, ',\s*\}')
THEN try_cast(json_extract_string(document, '/' || $mark || '/' || $on || '/equals') AS BIGINT) END
"""

_ROWS = """
CREATE TABLE $rows AS
SELECT $columns, part::BIGINT AS $partition, off AS $offset FROM $classified WHERE sound
"""

_PROMISES = """
CREATE TABLE $promises AS
SELECT part AS "partition", off AS "offset", promised AS key FROM $classified WHERE promised IS NOT NULL
"""

_REJECTED = """
INSERT INTO expected_dead_letters
SELECT r.topic, r."partition", r."offset", r.value
FROM records r JOIN $classified c ON r."partition" = c.part AND r."offset" = c.off
WHERE r.topic = ? AND NOT c.sound AND c.promised IS NULL
"""


def classify(session: Session, pipeline: Pipeline) -> None:
    """From `records`, make `expected_dead_letters` and per stream two tables.

    `rows_<stream>` has the stream's columns as the results table names them, without looked-up ones;
    `promises_<stream>` has partition, offset and the key that a punctuation closes.
    """
    session.run(_DEAD_LETTERS)
    for stream, declared in pipeline.streams.items():
        _classify_stream(session, stream, declared)


def _classify_stream(session: Session, stream: str, declared: Stream) -> None:
    columns = [name(f"{stream}_{column}") for column in declared.columns]
    fields = [
        f"{_field(kind, place)} AS {column}"
        for place, (column, kind) in enumerate(zip(columns, declared.columns.values(), strict=True), 1)
    ]
    classified = name(f"classified_{stream}")
    session.run(
        _CLASSIFY,
        [declared.topic],
        classified=classified,
        paths=_array(f"/{column}" for column in declared.columns),
        declared=_array(declared.columns),
        promised=_promised(declared),
        fields=", ".join(fields),
        present=" AND ".join(f"{column} IS NOT NULL" for column in columns),
    )
    partition, offset = (name(f"{stream}_{coordinate}") for coordinate in COORDINATES)
    session.run(
        _ROWS,
        rows=name(f"rows_{stream}"),
        columns=", ".join(columns),
        partition=partition,
        offset=offset,
        classified=classified,
    )
    session.run(_PROMISES, promises=name(f"promises_{stream}"), classified=classified)
    session.run(_REJECTED, [declared.topic], classified=classified)
    session.run("DROP TABLE $classified", classified=classified)


def _array(values: Iterable[str]) -> str:
    return "[" + ", ".join(map(text, values)) + "]"


def _promised(declared: Stream) -> str:
    if declared.punctuated_on is None:
        return "CAST(NULL AS BIGINT)"
    return fill(_PROMISED, mark=text(MARK), on=text(declared.punctuated_on), words=_WORDS)


def _field(kind: ColumnType, place: int) -> str:
    """The member at `place` (from 1) as a value of its declared type; NULL when it is of another."""
    member, kinds = f"texts[{place}]", f"kinds[{place}]"
    match kind:
        case ColumnType.LONG:
            sound, value = f"{kinds} IN {_WORDS}", f"try_cast({member} AS {kind.duckdb})"
        case ColumnType.DOUBLE:
            value = f"try_cast({member} AS {kind.duckdb})"
            sound = f"{kinds} IN {_NUMBERS} AND isfinite({value})"
        case ColumnType.STRING:
            sound, value = f"{kinds} = 'VARCHAR'", member
        case ColumnType.BOOLEAN:
            sound, value = f"{kinds} = 'BOOLEAN'", f"{member} = 'true'"
        case ColumnType.TIMESTAMP:
            # The pattern alone would let the year 0000 pass, which is before the first that dates can hold.
            sound = f"regexp_full_match({member}, {text(TIMESTAMP)}) AND {member}[1:4] <> '0000'"
            sound, value = f"{kinds} = 'VARCHAR' AND {sound}", f"try_cast({member} AS {kind.duckdb})"
    return f"CASE WHEN {sound} THEN {value} END"
