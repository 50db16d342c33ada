"""Tells rows, punctuations and dead letters apart, with DuckDB's JSON functions made strict.

DuckDB reads JSON with yyjson, which allows three things that JSON forbids: NaN and Infinity, a trailing
comma, and numbers of any size. Checks of type and range refuse the first and the last, and a pattern refuses
the comma.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from endmark.domain import Domain
from endmark.pipeline import COORDINATES, Pipeline, Stream
from endmark.types import ColumnType
from endmark.verify.closed_keys import load
from endmark.verify.closing_rule import close_by_rule
from endmark.verify.formats import flatten
from endmark.verify.join_sides import key_column, microseconds
from endmark.verify.patterns import MARK
from endmark.verify.session import Session, fill, name, names, text

DATE = r"\d{4}-\d\d-\d\d"
TIMESTAMP = r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?Z"

_WORDS = "('UBIGINT', 'BIGINT')"
_NUMBERS = "('UBIGINT', 'BIGINT', 'DOUBLE')"

_DEAD_LETTERS = """
CREATE TABLE expected_dead_letters (
    topic VARCHAR, "partition" INTEGER, "offset" BIGINT, value BLOB, reason VARCHAR
)
"""

# `document` has well-formed JSON only, since the JSON functions raise on anything else. A member may hold a
# comma and a brace, but then a quote stands between them and the end of a flat object.
_CLASSIFY = r"""
CREATE TABLE $classified AS
WITH texts AS (
    SELECT "partition", "offset", try(decode(value)) AS body FROM $flat
), documents AS (
    SELECT "partition", "offset",
        CASE WHEN json_valid(body) AND NOT regexp_matches(body, ',\s*\}\s*$$') THEN body END AS document
    FROM texts
), members AS (
    SELECT "partition", "offset", document, json_keys(document) AS members,
        json_type(document, $paths) AS kinds, json_extract_string(document, $paths) AS texts,
        json_type(document, $closing_paths) AS closing_kinds,
        json_extract_string(document, $closing_paths) AS closing_texts
    FROM documents
), fields AS (
    SELECT "partition" AS part, "offset" AS off, $closing,
        coalesce(members = [$mark], false) AS marked, coalesce($pattern, false) AS patterned,
        coalesce(list_sort(members) = list_sort($declared), false) AS complete, $fields
    FROM members
)
SELECT *, complete AND $present AS sound, patterned AND $closing_present AS promised FROM fields
"""

# The names of the members are known here, so a comma before a brace outside of texts is a trailing comma.
_PATTERN = r"""
members = [$mark] AND list_sort(json_keys(document, '/' || $mark)) = list_sort($on) AND $equals
    AND NOT regexp_matches(regexp_replace(document, '"([^"\\]|\\.)*"', '', 'g'), ',\s*\}')
"""

_EQUALS = "json_keys(document, '/' || $mark || '/' || $column) = ['equals']"

_ROWS = """
CREATE TABLE $rows AS
SELECT $columns, part::BIGINT AS $partition, off AS $offset FROM $classified WHERE sound
"""

# These rows have no other effect: they make no other row late, and promise nothing.
_FUTURE = """
CREATE TABLE $future AS
SELECT f.* FROM $rows f
JOIN records r ON r.topic = ? AND r."partition" = f.$partition AND r."offset" = f.$offset
WHERE epoch_us(f.$time) - ? > r."timestamp"::HUGEINT * 1000
"""

_WITHOUT_FUTURE = """
DELETE FROM $rows r WHERE EXISTS (
    FROM $future f WHERE f.$partition = r.$partition AND f.$offset = r.$offset
)
"""

_PROMISES = """
CREATE TABLE $promises AS
SELECT part AS "partition", off AS "offset", $closing FROM $classified WHERE promised
"""

# These records are rare, so Python may read them one by one.
_OTHERS = """
SELECT r."partition", r."offset", r.value
FROM $flat r JOIN $classified c ON r."partition" = c.part AND r."offset" = c.off
WHERE c.marked AND NOT c.promised
"""

_ACCEPT = """
UPDATE $classified SET promised = true
WHERE marked AND NOT promised
    AND EXISTS (FROM $punctuations p WHERE p."partition" = part AND p."offset" = off)
"""

_REJECTED = """
INSERT INTO expected_dead_letters BY NAME
SELECT r.topic, r."partition", r."offset", r.value
FROM records r JOIN $classified c ON r."partition" = c.part AND r."offset" = c.off
WHERE r.topic = ? AND NOT c.sound AND NOT c.promised
"""


def classify(session: Session, pipeline: Pipeline) -> None:
    """Make `expected_dead_letters`, still without reasons, and tables of each stream from `records`.

    `rows_<stream>` has the stream's own columns, named as in the results table. `future_<stream>` has the
    same columns for rows that are too far ahead of Kafka's timestamp. `promises_<stream>` has a row for each
    key that a punctuation names: partition, offset, and the key in columns named by `key_column`.
    `closed_keys.load` makes `patterns_<stream>`, `wider_<stream>` and `punctuations_<stream>`.
    """
    session.run(_DEAD_LETTERS)
    for stream, declared in pipeline.streams.items():
        _classify_stream(session, stream, declared, pipeline.key)


def _classify_stream(session: Session, stream: str, declared: Stream, key: tuple[str, ...]) -> None:
    columns = {f"{stream}_{column}": kind for column, kind in declared.columns.items()}
    closing = {key_column(column): declared.columns[column] for column in key}
    classified, flat = name(f"classified_{stream}"), name(f"flat_{stream}")
    flatten(session, stream, declared)
    session.run(
        _CLASSIFY,
        flat=flat,
        classified=classified,
        paths=_array(f"/{column}" for column in declared.columns),
        closing_paths=_array(f"/{MARK}/{column}/equals" for column in key),
        mark=text(MARK),
        pattern=_pattern(declared, key),
        declared=_array(declared.columns),
        fields=_fields("", columns),
        closing=_fields("closing_", closing),
        present=_present(columns),
        closing_present=_present(closing),
    )
    partition, offset = (name(f"{stream}_{coordinate}") for coordinate in COORDINATES)
    session.run(
        _ROWS,
        rows=name(f"rows_{stream}"),
        columns=names(list(columns)),
        partition=partition,
        offset=offset,
        classified=classified,
    )
    _set_future_aside(session, stream, declared)
    session.run(
        _PROMISES, promises=name(f"promises_{stream}"), closing=names(list(closing)), classified=classified
    )
    others = session.run(_OTHERS, classified=classified, flat=flat) if declared.punctuated_on else []
    load(session, stream, declared, key, others)
    close_by_rule(session, stream, declared, key)
    session.run(_ACCEPT, classified=classified, punctuations=name(f"punctuations_{stream}"))
    session.run(_REJECTED, [declared.topic], classified=classified)
    session.run("DROP TABLE $classified", classified=classified)


def _set_future_aside(session: Session, stream: str, declared: Stream) -> None:
    """Move rows of the future from `rows_<stream>` to `future_<stream>`; `ahead: null` moves none."""
    ahead = declared.event_time.ahead
    rows = {
        "rows": name(f"rows_{stream}"),
        "future": name(f"future_{stream}"),
        "partition": name(f"{stream}_{COORDINATES[0]}"),
        "offset": name(f"{stream}_{COORDINATES[1]}"),
        "time": name(f"{stream}_{declared.event_time.column}"),
    }
    session.run(_FUTURE, [declared.topic, microseconds(ahead)], **rows)
    session.run(_WITHOUT_FUTURE, **rows)


def _array(values: Iterable[str]) -> str:
    return "[" + ", ".join(map(text, values)) + "]"


def _pattern(declared: Stream, key: tuple[str, ...]) -> str:
    """The condition that a document's members are those of a punctuation that names a key of this stream."""
    if not set(key) <= set(declared.punctuated_on):
        return "false"
    mark = text(MARK)
    equals = [fill(_EQUALS, mark=mark, column=text(column)) for column in key]
    return fill(_PATTERN, mark=mark, on=_array(key), equals=" AND ".join(equals))


def _fields(prefix: str, columns: Mapping[str, ColumnType]) -> str:
    """The items of the lists `<prefix>texts` and `<prefix>kinds` as columns with these names and types."""
    return ", ".join(
        f"{_field(kind, f'{prefix}texts[{place}]', f'{prefix}kinds[{place}]')} AS {name(column)}"
        for place, (column, kind) in enumerate(columns.items(), 1)
    )


def _present(columns: Iterable[str]) -> str:
    return " AND ".join(f"{name(column)} IS NOT NULL" for column in columns)


def _field(kind: ColumnType, member: str, found: str) -> str:
    """The SQL of a member's value; NULL if it is no value of its column.

    Args:
        kind: the type of the column.
        member: SQL of the member's text.
        found: SQL of the member's type in JSON.
    """
    value = f"try_cast({member} AS {kind.duckdb})"
    match kind.domain:
        case Domain.LONG:
            sound = f"{found} IN {_WORDS}"
        case Domain.DOUBLE:
            sound = f"{found} IN {_NUMBERS} AND isfinite({value})"
        case Domain.BOOLEAN:
            sound, value = f"{found} = 'BOOLEAN'", f"{member} = 'true'"
        case Domain.STRING:
            sound, value = f"{found} = 'VARCHAR'", member
        case Domain.DATE | Domain.TIMESTAMP:
            pattern = DATE if kind.domain is Domain.DATE else TIMESTAMP
            # The pattern alone would let the year 0000 pass, but the first year of dates is 1.
            sound = f"regexp_full_match({member}, {text(pattern)}) AND {member}[1:4] <> '0000'"
            sound = f"{found} = 'VARCHAR' AND {sound}"
        case Domain.DECIMAL:
            # The pattern refuses too many decimal places, which DuckDB would round. DuckDB itself refuses too
            # many digits before the point.
            number = r"-?(0|[1-9]\d*)" + (rf"(\.\d{{1,{kind.scale}}})?" if kind.scale else "")
            sound = f"{found} = 'VARCHAR' AND regexp_full_match({member}, {text(number)})"
    return f"CASE WHEN {sound} THEN {value} END"
