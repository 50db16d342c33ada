"""Reads the topics that a pipeline publishes to: rows, output punctuations, and records that are neither.

The columns of our own that stand beside those of a row begin with a `#`, since no column of a row does.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from endmark.domain import Domain
from endmark.pipeline import Pipeline
from endmark.pipeline.publish import BATCH_HEADER, CHECKPOINT_HEADER
from endmark.types import ColumnType
from endmark.verify.formats.patterns import MARK
from endmark.verify.judge.classify import field_value
from endmark.verify.session import Session, array, name, names, text

# A record is ours if a checkpoint and a batch of it are named, and its value is a row or a punctuation.
_READ = r"""
CREATE TABLE $read AS
WITH texts AS (
    SELECT *, try(decode(value)) AS body, $checkpoint AS "#checkpoint", try_cast($batch AS BIGINT) AS "#batch"
    FROM records WHERE topic = ?
), documents AS (
    SELECT *, CASE WHEN json_valid(body) AND NOT regexp_matches(body, ',\s*\}\s*$$') THEN body END AS document
    FROM texts
), members AS (
    SELECT *, json_keys(document) AS members, json_type(document, $paths) AS kinds,
        json_extract_string(document, $paths) AS texts
    FROM documents
), fields AS (
    SELECT "partition" AS "#partition", "offset" AS "#offset", key AS "#key", value AS "#value", "#batch",
        coalesce("#batch" IS NOT NULL AND $own, false) AS "#ours", members AS "#members", kinds AS "#kinds",
        CASE WHEN members = [$mark] AND json_type(document, '/' || $mark) = 'OBJECT'
            THEN json(json_extract(document, '/' || $mark))::VARCHAR END AS "#punctuation",
        $fields
    FROM members
)
SELECT * EXCLUDE ("#members", "#kinds"), coalesce("#ours"
    AND len("#members") = len(list_distinct("#members")) AND list_has_all("#members", $required)
    AND list_has_all($columns, "#members") AND $present, false) AS "#row"
FROM fields
"""

_HEADER = "try(decode(list_filter(headers, lambda h: h.name = $header)[1].value))"

_ROWS = """
CREATE TABLE $rows AS
SELECT $columns, "#partition", "#offset", "#batch", "#key", "#value" FROM $read WHERE "#row"
"""

_SAID = """
CREATE TABLE $said AS
SELECT "#punctuation" AS punctuation, "#partition", "#offset", "#batch", "#key" FROM $read
WHERE "#ours" AND $announces AND "#punctuation" IS NOT NULL
"""

_FOREIGN = """
CREATE TABLE $foreign AS
SELECT "#partition" AS "partition", "#offset" AS "offset", "#value" AS value FROM $read
WHERE NOT "#row" AND NOT ("#ours" AND $announces AND "#punctuation" IS NOT NULL)
"""

_UNUSUAL = ("Infinity", "-Infinity", "NaN")  # doubles that JSON lacks, and that a relation may have


def read_published(
    session: Session,
    pipeline: Pipeline,
    role: str,
    topic: str,
    app_id: str | None,
    added: Collection[str],
) -> None:
    """Make `published_<role>`, `said_<role>` and `foreign_<role>` from the records of a topic.

    `published_<role>` has the rows, with the columns of the topic. `said_<role>` has the output punctuations,
    as DuckDB writes JSON. Both have the place of the record, its `#batch` and its `#key`. `foreign_<role>`
    has the place and the value of every other record, which no job of this checkpoint has sent.

    Args:
        session: the session.
        pipeline: the pipeline.
        role: the kind of the topic's rows.
        topic: the name of the topic.
        app_id: the id of the checkpoint; `None` for any.
        added: the columns of rows that are younger than the checkpoint. Earlier records lack them.
    """
    columns = pipeline.outputs.topic_columns(role)
    fragments = {
        "read": name(f"read_{role}"),
        "announces": str(role == "results"),
        "columns": names(list(columns)),
    }
    session.run(
        _READ,
        [topic],
        read=fragments["read"],
        checkpoint=_header(CHECKPOINT_HEADER),
        batch=_header(BATCH_HEADER),
        own='"#checkpoint" IS NOT NULL' if app_id is None else f'"#checkpoint" = {text(app_id)}',
        paths=array(f"/{column}" for column in columns),
        mark=text(MARK),
        fields=", ".join(
            f"{_value(kind, f'texts[{place}]', f'kinds[{place}]')} AS {name(column)}"
            for place, (column, kind) in enumerate(columns.items(), 1)
        ),
        present=" AND ".join(
            f"({name(column)} IS NOT NULL OR coalesce(\"#kinds\"[{place}], 'NULL') = 'NULL')"
            for place, column in enumerate(columns, 1)
        ),
        columns=array(columns),
        required=array(column for column in columns if column not in added),
    )
    session.run(_ROWS, rows=name(f"published_{role}"), **fragments)
    session.run(_SAID, said=name(f"said_{role}"), **fragments)
    session.run(_FOREIGN, foreign=name(f"foreign_{role}"), **fragments)
    session.run("DROP TABLE $read", **fragments)


def _header(header: str) -> str:
    return _HEADER.replace("$header", text(header))


def _value(kind: ColumnType, member: str, found: str) -> str:
    """The SQL of a member's value; NULL if it is no value of its column."""
    kind = replace(kind, spelling=None)
    if kind.many:
        return f"CASE WHEN {found} = 'ARRAY' THEN try_cast(try_cast({member} AS JSON) AS {kind.duckdb}) END"
    usual = field_value(kind, member, found)
    if kind.domain is not Domain.DOUBLE:
        return usual
    return (
        f"CASE WHEN {found} = 'VARCHAR' AND {member} IN ({', '.join(map(text, _UNUSUAL))}) "
        f"THEN try_cast({member} AS DOUBLE) ELSE {usual} END"
    )
