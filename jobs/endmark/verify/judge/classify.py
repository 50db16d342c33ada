"""Tells rows, punctuations and dead letters apart, with DuckDB's JSON functions made strict.

DuckDB reads JSON with yyjson, which allows three things that JSON forbids: NaN and Infinity, a trailing
comma, and numbers of any size. Checks of type and range refuse the first and the last, and a pattern refuses
the comma.
"""

from __future__ import annotations

from collections.abc import Mapping

from endmark.domain import Domain
from endmark.pipeline import COORDINATES, Pipeline, Stream
from endmark.types import ColumnType, Spelling
from endmark.verify.formats.patterns import MARK
from endmark.verify.formats.registry import as_named, flatten, form_of
from endmark.verify.join.sides import key_column, microseconds
from endmark.verify.judge.closing_rule import close_by_rule
from endmark.verify.judge.row_steps import own_rows, step_rows
from endmark.verify.promises.closed_keys import load
from endmark.verify.promises.heartbeats import read_punctuations, set_heartbeats_aside
from endmark.verify.read.added_columns import NOTHING_ADDED, AddedColumns, none_early
from endmark.verify.session import Session, array, fill, name, names, text

DATE = r"\d{4}-\d\d-\d\d"
TIMESTAMP = (
    r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
    r"(Z|[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00)"
)

_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999  # microseconds since 1970

# The least and greatest number, and the SQL of the value of a number.
_NUMBERED = {
    Spelling.INT: (-2_147_483_648, 2_147_483_647, "$number"),
    Spelling.SECONDS: (_FIRST // 1_000_000, _LAST // 1_000_000, "make_timestamptz($number * 1000000)"),
    Spelling.MILLISECONDS: (_FIRST // 1000, _LAST // 1000, "make_timestamptz($number * 1000)"),
    Spelling.MICROSECONDS: (_FIRST, _LAST, "make_timestamptz($number)"),
    Spelling.DAYS: (-719_162, 2_932_896, "DATE '1970-01-01' + $number::INTEGER"),
}

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
        coalesce($complete, false) AS complete, kinds AS "#kinds", $fields
    FROM members
)
SELECT * EXCLUDE ("#kinds"), complete AND $present AS sound, patterned AND $closing_present AS promised
FROM fields
"""

# The names of the members are known here, so a comma before a brace outside of texts is a trailing comma.
_PATTERN = r"""
members = [$mark] AND list_sort(json_keys(document, '/' || $mark)) = list_sort($on) AND $equals
    AND NOT regexp_matches(regexp_replace(document, '"([^"\\]|\\.)*"', '', 'g'), ',\s*\}')
"""

# No member stands twice, and none that must be there is missing.
_COMPLETE = """
len(members) = len(list_distinct(members)) AND list_has_all(members, $required)
    AND list_has_all($declared, members) AND $none_early
"""

_EQUALS = "json_keys(document, '/' || $mark || '/' || $column) = ['equals']"

# The others are no rows, whatever their keys, headers and timestamps are.
_UNFIT_ROWS = """
DELETE FROM $unfit u WHERE NOT EXISTS (
    FROM $classified c WHERE c.part = u."partition" AND c.off = u."offset" AND c.sound
)
"""

_ROWS = """
CREATE TABLE $rows AS
SELECT $columns, part::BIGINT AS $partition, off AS $offset, false AS "#filtered"
FROM $classified WHERE sound
"""

# These rows have no other effect: they make no other row late, and promise nothing. A filtered row needs no
# key, and is no violation.
_ASIDE = """
CREATE TABLE $aside AS
SELECT f.*, CASE WHEN f."#filtered" THEN 'filtered' WHEN NOT ($keyed) THEN 'null' ELSE 'future' END
    AS violation
FROM $rows f
JOIN records r ON r.topic = ? AND r."partition" = f.$partition AND r."offset" = f.$offset
WHERE NOT (f."#filtered" OR $keyed) OR epoch_us(f.$time) - ? > r."timestamp"::HUGEINT * 1000
"""

_WITHOUT_ASIDE = """
DELETE FROM $rows r WHERE EXISTS (
    FROM $aside f WHERE f.$partition = r.$partition AND f.$offset = r.$offset
)
"""

_PROMISES = """
CREATE TABLE $promises AS
SELECT part AS "partition", off AS "offset", $closing FROM $classified WHERE promised
"""

_DELETIONS = "CREATE TABLE $deletions AS FROM $promises"

# These records are rare, so Python may read them one by one.
_OTHERS = """
SELECT f."partition", f."offset", f.value, r."timestamp"
FROM $flat f JOIN $classified c ON f."partition" = c.part AND f."offset" = c.off
JOIN records r ON r.topic = ? AND r."partition" = f."partition" AND r."offset" = f."offset"
WHERE c.marked AND NOT c.promised
"""

_ACCEPT = """
UPDATE $classified SET promised = true
WHERE marked AND NOT promised
    AND EXISTS (FROM $punctuations p WHERE p."partition" = part AND p."offset" = off)
"""

_FAILED = """
UPDATE $classified SET sound = false
WHERE EXISTS (FROM $failed f WHERE f."partition" = part AND f."offset" = off)
"""

_REJECTED = """
INSERT INTO expected_dead_letters BY NAME
SELECT r.topic, r."partition", r."offset", r.value,
    CASE WHEN a."offset" IS NOT NULL THEN 'future' WHEN f."offset" IS NOT NULL THEN 'expression'
        ELSE u.reason END AS reason
FROM records r JOIN $classified c ON r."partition" = c.part AND r."offset" = c.off
LEFT JOIN $ahead a ON a."partition" = c.part AND a."offset" = c.off
LEFT JOIN $failed f ON f."partition" = c.part AND f."offset" = c.off
LEFT JOIN $unfit u ON u."partition" = c.part AND u."offset" = c.off
WHERE r.topic = ? AND NOT c.sound AND NOT c.promised
"""


def classify(session: Session, pipeline: Pipeline, added: AddedColumns = NOTHING_ADDED) -> None:
    """Make `expected_dead_letters` and tables of each stream from `records`.

    Dead letters have no reasons yet, except for heartbeats of the future, failed expressions, and rows with
    an unfit key, header or timestamp.

    `rows_<stream>` has the stream's columns behind its row steps, named as in the results table, and says
    which rows are `#filtered`. `aside_<stream>` has the same columns, and the `violation`, of rows with a
    null in the join key and of rows that are too far ahead of Kafka's timestamp; such a row may be filtered.
    `promises_<stream>` has a row for each key that a punctuation names: partition, offset,
    and the key in columns named by `key_column`. `deletions_<stream>` has the same of deletions that remove
    rows, whether they close keys or not. `closed_keys.load` makes `patterns_<stream>`,
    `wider_<stream>` and `punctuations_<stream>`, and `set_heartbeats_aside` makes `heartbeats_<stream>`.
    """
    session.run(_DEAD_LETTERS)
    for stream, declared in pipeline.streams.items():
        _classify_stream(session, pipeline, stream, declared, added)


def _classify_stream(
    session: Session, pipeline: Pipeline, stream: str, declared: Stream, added: AddedColumns
) -> None:
    stage = pipeline.stage_of(stream)
    key, types = stage.key, stage.key_types
    columns = {f"{stream}_{column}": kind for column, kind in declared.columns.items()}
    classified, flat = name(f"classified_{stream}"), name(f"flat_{stream}")
    named = as_named(pipeline, stream)
    # Punctuations are spelled as rows of the stream are. A spelling may have fewer values than the type.
    spelled = {column: named.columns[column] for column in named.punctuated_on}
    closing = {key_column(column): spelled.get(column, kind) for column, kind in types.items()}
    flatten(session, stream, form_of(pipeline, stream), named, added)
    session.run(
        _CLASSIFY,
        flat=flat,
        classified=classified,
        paths=array(f"/{column}" for column in declared.columns),
        closing_paths=array(f"/{MARK}/{column}/equals" for column in key),
        mark=text(MARK),
        pattern=_pattern(named, key),
        complete=fill(
            _COMPLETE,
            required=array(column for column, kind in declared.columns.items() if not kind.nullable),
            declared=array(declared.columns),
            none_early=none_early(added.of(stream)),
        ),
        fields=_fields("", columns),
        closing=_fields("closing_", closing),
        present=_present(columns),
        closing_present=_present(closing),
    )
    unfit = name(f"unfit_{stream}")
    session.run(_UNFIT_ROWS, unfit=unfit, classified=classified)
    session.run(_FAILED, classified=classified, failed=unfit)
    partition, offset = (name(f"{stream}_{coordinate}") for coordinate in COORDINATES)
    session.run(
        _ROWS,
        rows=name(f"rows_{stream}"),
        columns=names(list(columns)),
        partition=partition,
        offset=offset,
        classified=classified,
    )
    step_rows(session, pipeline, stream)
    failed = name(f"failed_{stream}")
    session.run(_FAILED, classified=classified, failed=failed)
    _set_aside(session, stream, declared, key)
    session.run(
        _PROMISES, promises=name(f"promises_{stream}"), closing=names(list(closing)), classified=classified
    )
    others = session.run(_OTHERS, [declared.topic], classified=classified, flat=flat)
    sound = set_heartbeats_aside(session, stream, declared, read_punctuations(declared, others))
    promises = name(f"promises_{stream}")
    if pipeline.removes_rows(stream):
        # Punctuations that are records of their own delete no row, and are among the promises from `load` on.
        session.run(_DELETIONS, deletions=name(f"deletions_{stream}"), promises=promises)
    load(session, stream, declared, types, sound)
    if pipeline.removes_rows(stream) and not declared.punctuated_on:
        session.run("TRUNCATE $promises", promises=promises)
    close_by_rule(session, stream, declared, key, own_rows(pipeline, stream))
    session.run(_ACCEPT, classified=classified, punctuations=name(f"punctuations_{stream}"))
    ahead = name(f"ahead_{stream}")
    session.run(_REJECTED, [declared.topic], classified=classified, ahead=ahead, failed=failed, unfit=unfit)
    session.run("DROP TABLE $classified", classified=classified)


def _set_aside(session: Session, stream: str, declared: Stream, key: tuple[str, ...]) -> None:
    """Move rows without a whole key and rows of the future from `rows_<stream>` to `aside_<stream>`.

    With `ahead: null`, no row is of the future.
    """
    ahead = declared.event_time.ahead
    rows = {
        "rows": name(f"rows_{stream}"),
        "aside": name(f"aside_{stream}"),
        "partition": name(f"{stream}_{COORDINATES[0]}"),
        "offset": name(f"{stream}_{COORDINATES[1]}"),
        "time": name(f"{stream}_{declared.event_time.column}"),
    }
    keyed = " AND ".join(f"f.{name(f'{stream}_{column}')} IS NOT NULL" for column in key)
    session.run(_ASIDE, [declared.topic, microseconds(ahead)], keyed=keyed, **rows)
    session.run(_WITHOUT_ASIDE, **rows)


def _pattern(declared: Stream, key: tuple[str, ...]) -> str:
    """The condition that a document's members are those of a punctuation that names a key of this stream."""
    if not set(key) <= set(declared.punctuated_on):
        return "false"
    mark = text(MARK)
    equals = [fill(_EQUALS, mark=mark, column=text(column)) for column in key]
    return fill(_PATTERN, mark=mark, on=array(key), equals=" AND ".join(equals))


def _fields(prefix: str, columns: Mapping[str, ColumnType]) -> str:
    """The items of the lists `<prefix>texts` and `<prefix>kinds` as columns with these names and types."""
    return ", ".join(
        f"{field_value(kind, f'{prefix}texts[{place}]', f'{prefix}kinds[{place}]')} AS {name(column)}"
        for place, (column, kind) in enumerate(columns.items(), 1)
    )


def _present(columns: Mapping[str, ColumnType]) -> str:
    """The condition that columns have values. A nullable one may be missing or null in JSON instead."""
    found = []
    for place, (column, kind) in enumerate(columns.items(), 1):
        none = f" OR coalesce(\"#kinds\"[{place}], 'NULL') = 'NULL'" if kind.nullable else ""
        found.append(f"({name(column)} IS NOT NULL{none})")
    return " AND ".join(found)


def field_value(kind: ColumnType, member: str, found: str) -> str:
    """Return the SQL of a member's value; NULL if it is no value of its column.

    Args:
        kind: the type of the column.
        member: SQL of the member's text.
        found: SQL of the member's type in JSON.
    """
    value = f"try_cast({member} AS {kind.duckdb})"
    if kind.spelling in _NUMBERED:
        number = f"try_cast({member} AS BIGINT)"
        least, greatest, converted = _NUMBERED[kind.spelling]
        sound = f"{found} IN {_WORDS} AND {number} BETWEEN {least} AND {greatest}"
        return f"CASE WHEN {sound} THEN try({fill(converted, number=number)}) END"
    match kind.domain:
        case Domain.LONG:
            sound = f"{found} IN {_WORDS}"
        case Domain.DOUBLE:
            sound = f"{found} IN {_NUMBERS} AND isfinite({value})"
            if kind.spelling is Spelling.FLOAT:  # DuckDB refuses what rounds to an infinite float
                sound += f" AND try_cast({value} AS FLOAT) IS NOT NULL"
        case Domain.BOOLEAN:
            sound, value = f"{found} = 'BOOLEAN'", f"{member} = 'true'"
        case Domain.STRING:
            sound, value = f"{found} = 'VARCHAR'", member
        case Domain.DATE | Domain.TIMESTAMP:
            pattern = DATE if kind.domain is Domain.DATE else TIMESTAMP
            # The pattern alone would let the year 0000 pass, but the first year of dates is 1.
            sound = f"regexp_full_match({member}, {text(pattern)}) AND {member}[1:4] <> '0000'"
            sound = f"{found} = 'VARCHAR' AND {sound}"
            if kind.domain is Domain.TIMESTAMP:  # an offset may lead out of the years 1 to 9999
                sound += f" AND epoch_us({value}) BETWEEN {_FIRST} AND {_LAST}"
        case Domain.DECIMAL:
            # The pattern refuses too many decimal places, which DuckDB would round. DuckDB itself refuses too
            # many digits before the point.
            number = r"-?(0|[1-9]\d*)" + (rf"(\.\d{{1,{kind.scale}}})?" if kind.scale else "")
            sound = f"{found} = 'VARCHAR' AND regexp_full_match({member}, {text(number)})"
    return f"CASE WHEN {sound} THEN {value} END"
