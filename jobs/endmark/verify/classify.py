"""Tells rows, punctuations and dead letters apart, with DuckDB's JSON functions made strict.

DuckDB reads JSON by yyjson with three leniencies on: NaN and Infinity, a trailing comma, and numbers of any
size. The first and last are screened by type and range, the comma by a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from endmark.domain import Domain
from endmark.pipeline import COORDINATES, Pipeline, Stream
from endmark.types import ColumnType
from endmark.verify.closed_keys import load
from endmark.verify.closing_rule import close_by_rule
from endmark.verify.formats import speak
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

# `document` is the text of well-formed JSON only: the JSON functions raise on anything else.
# A member may hold a comma and a brace, but then a quote stands between them and the end of a flat object.
_CLASSIFY = r"""
CREATE TABLE $classified AS
WITH texts AS (
    SELECT "partition", "offset", try(decode(value)) AS body FROM $spoken
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

# Outside of texts, with the members' names known, a comma before a brace is a trailing one.
_PATTERN = r"""
members = [$mark] AND list_sort(json_keys(document, '/' || $mark)) = list_sort($on) AND $equals
    AND NOT regexp_matches(regexp_replace(document, '"([^"\\]|\\.)*"', '', 'g'), ',\s*\}')
"""

_EQUALS = "json_keys(document, '/' || $mark || '/' || $column) = ['equals']"

_ROWS = """
CREATE TABLE $rows AS
SELECT $columns, part::BIGINT AS $partition, off AS $offset FROM $classified WHERE sound
"""

# Nothing else hears of these rows: they make no other row late and promise nothing.
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

# Rare, so that reading them one by one takes no time.
_OTHERS = """
SELECT r."partition", r."offset", r.value
FROM $spoken r JOIN $classified c ON r."partition" = c.part AND r."offset" = c.off
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

    `rows_<stream>` has the stream's columns as the results table names them, without looked-up ones.
    `future_<stream>` has the same columns of rows that are too far ahead of Kafka's timestamp.
    `promises_<stream>` has partition, offset and, in columns named by `key_column`, a key that a punctuation
    names. `patterns_<stream>`, `wider_<stream>` and `punctuations_<stream>` are those of `closed.load`.
    """
    session.run(_DEAD_LETTERS)
    for stream, declared in pipeline.streams.items():
        _classify_stream(session, stream, declared, pipeline.join.on)


def _classify_stream(session: Session, stream: str, declared: Stream, key: tuple[str, ...]) -> None:
    columns = {f"{stream}_{column}": kind for column, kind in declared.columns.items()}
    closing = {key_column(column): declared.columns[column] for column in key}
    classified, spoken = name(f"classified_{stream}"), name(f"spoken_{stream}")
    speak(session, stream, declared)
    session.run(
        _CLASSIFY,
        spoken=spoken,
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
    asked = declared.punctuated_on
    others = session.run(_OTHERS, classified=classified, spoken=spoken) if asked else []
    load(session, stream, declared, key, others)
    close_by_rule(session, stream, declared, key)
    session.run(_ACCEPT, classified=classified, punctuations=name(f"punctuations_{stream}"))
    session.run(_REJECTED, [declared.topic], classified=classified)
    session.run("DROP TABLE $classified", classified=classified)


def _set_future_aside(session: Session, stream: str, declared: Stream) -> None:
    """Move the rows of the future from `rows_<stream>` to `future_<stream>`; `ahead: null` knows none."""
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
    """Return whether the document's members are those of a punctuation of this stream that names a key."""
    if not set(key) <= set(declared.punctuated_on):
        return "false"
    mark = text(MARK)
    equals = [fill(_EQUALS, mark=mark, column=text(column)) for column in key]
    return fill(_PATTERN, mark=mark, on=_array(key), equals=" AND ".join(equals))


def _fields(prefix: str, columns: Mapping[str, ColumnType]) -> str:
    """The members at the paths of `<prefix>kinds` and `<prefix>texts` as columns of these names and types."""
    return ", ".join(
        f"{_field(kind, f'{prefix}texts[{place}]', f'{prefix}kinds[{place}]')} AS {name(column)}"
        for place, (column, kind) in enumerate(columns.items(), 1)
    )


def _present(columns: Iterable[str]) -> str:
    return " AND ".join(f"{name(column)} IS NOT NULL" for column in columns)


def _field(kind: ColumnType, member: str, found: str) -> str:
    """A member, given as text and with its type in JSON, as a value of its column; NULL when it is none."""
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
            # The pattern alone would let the year 0000 pass, which is before the first that dates can hold.
            sound = f"regexp_full_match({member}, {text(pattern)}) AND {member}[1:4] <> '0000'"
            sound = f"{found} = 'VARCHAR' AND {sound}"
        case Domain.DECIMAL:
            # DuckDB rounds what has too many places, but refuses what has too many digits before the point.
            number = r"-?(0|[1-9]\d*)" + (rf"(\.\d{{1,{kind.scale}}})?" if kind.scale else "")
            sound = f"{found} = 'VARCHAR' AND regexp_full_match({member}, {text(number)})"
    return f"CASE WHEN {sound} THEN {value} END"
