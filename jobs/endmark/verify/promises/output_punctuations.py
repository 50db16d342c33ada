"""Finds the output punctuations that must be there, and those that may be there.

All patterns are known exactly. A set of values that was new in some partition is announced once, in one
normal form, when every partition of its stream has promised it and no live row of the stream matches it. A
final key must be announced if a punctuation names it and no pattern closes it. A key that a pattern closes,
too, may be announced by itself, which depends on how the streams were interleaved. If progress is known
only between two bounds, there are also two bounds of what is final or live. If closed keys are forgotten, a
key may be announced again, and rows of closed keys may hold back a pattern until their window ends.

The patterns that a stage announces are promises of its derived stream, which has one partition. They come in
an order that depends on batches. So a promise of a derived stream must be announced if no others include it,
and otherwise may be. Texts are compared in DuckDB's spelling of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from endmark.domain import Domain
from endmark.pipeline import Pipeline
from endmark.pipeline.stage import Stage
from endmark.types import ColumnType
from endmark.verify.join.sides import (
    join_sides,
    key_column,
    spelled,
    topics_of,
)
from endmark.verify.judge.broken_promises import bound_of
from endmark.verify.promises.closed_keys import wider_columns, within
from endmark.verify.promises.derived_times import expect_time_patterns
from endmark.verify.promises.final_keys import announces
from endmark.verify.promises.idle_partitions import is_uncertain
from endmark.verify.promises.live_rows import forgets, live_rows, rows_of_open_keys
from endmark.verify.promises.spans import Span, spans_of, written
from endmark.verify.session import Session, fill, name, names, text

Promise = dict[str, tuple[Span, ...]]

_MATCHED = """
SELECT DISTINCT q."partition", q."offset" FROM $promises q JOIN $live r ON $within
"""

# Rows of a derived stream may lack a column that a pattern restricts.
_NO_NULL = "($own IS NOT NULL OR q.$restricted IS NULL)"

# These keys are closed by a pattern or a declared order, so no announcement by their name is required.
_PATTERN_KEYS = """
INSERT INTO pattern_keys
SELECT $key FROM (SELECT DISTINCT $key FROM final) k JOIN $patterns q ON $within
GROUP BY ALL HAVING count(DISTINCT q."partition") = $partitions
"""

_FINAL_KEYS = """
CREATE OR REPLACE TABLE final_keys AS
SELECT f.*, n.named IS NOT NULL AND p.patterned IS NULL AS required
FROM (SELECT DISTINCT $key FROM final) f
LEFT JOIN ($named) n USING ($key)
LEFT JOIN (SELECT DISTINCT *, true AS patterned FROM pattern_keys) p USING ($key)
"""

_KEYS = "INSERT INTO announced_keys SELECT to_json($written)::VARCHAR, k.required FROM final_keys k"

_NAMED = "SELECT DISTINCT $key, true AS named FROM $named"

_UNCERTAIN_KEYS = """
INSERT INTO uncertain_punctuations
SELECT to_json($written)::VARCHAR FROM (FROM possibly_final EXCEPT FROM final) k
"""

# A key and a pattern may have the same text. So may several patterns, which are one row of the table if one
# batch releases them.
_EXPECTED = """
CREATE TABLE expected_punctuations AS
SELECT punctuation FROM (
    SELECT punctuation, row_number() OVER (PARTITION BY punctuation) AS number FROM announced_patterns
) p WHERE number = 1
    OR number <= (SELECT count(*) FROM actual_punctuations a WHERE a.punctuation = p.punctuation)
UNION ALL SELECT punctuation FROM announced_keys k WHERE required
    OR (SELECT count(*) FROM actual_punctuations a WHERE a.punctuation = k.punctuation)
        > (SELECT count(*) FROM announced_patterns p WHERE p.punctuation = k.punctuation)
"""

_ANNOUNCED_AGAIN = """
INSERT INTO expected_punctuations
SELECT punctuation FROM (
    SELECT punctuation, row_number() OVER (PARTITION BY punctuation) AS number FROM actual_punctuations
) a WHERE punctuation IN (SELECT punctuation FROM announced_keys)
    AND number > (SELECT count(*) FROM expected_punctuations e WHERE e.punctuation = a.punctuation)
"""

_PLAIN = """
UPDATE actual_punctuations
SET punctuation = CASE WHEN json_valid(punctuation) THEN json(punctuation)::VARCHAR ELSE punctuation END
"""


def expect_punctuations(session: Session, pipeline: Pipeline) -> None:
    """Make `expected_punctuations` and `uncertain_punctuations`.

    They are made from the tables of `expected_tables`, and from `actual_punctuations`.
    """
    session.run(_PLAIN)
    stage = pipeline.last_stage
    session.run("CREATE TABLE announced_keys (punctuation VARCHAR, required BOOLEAN)")
    expect_patterns(session, stage)
    if announces(stage) != "never":
        _add_keys(session, stage)
    session.run(_EXPECTED)
    if forgets(pipeline):
        session.run(_ANNOUNCED_AGAIN)


def expect_patterns(session: Session, stage: Stage) -> None:
    """Make `announced_patterns` of a stage, and `uncertain_punctuations` of those that may be announced."""
    for table in ("announced_patterns", "uncertain_punctuations"):
        session.run("CREATE OR REPLACE TABLE $table (punctuation VARCHAR)", table=table)
    if announces(stage) == "closed by any":
        for given in stage.inputs:
            if given == stage.derived:
                _add_derived_patterns(session, stage, given)
            else:
                _add_patterns(session, stage, given)
        if stage is stage.pipeline.last_stage:
            expect_time_patterns(session, stage)


def find_final_keys(session: Session, stage: Stage) -> None:
    """Make `final_keys`: the keys of `final`, and whether it is `required` to announce each by its name."""
    kinds = stage.key_types
    key = names([key_column(column) for column in kinds])
    session.run("DROP TABLE IF EXISTS pattern_keys")
    session.create("pattern_keys", {key_column(column): kind for column, kind in kinds.items()})
    for stream in stage.inputs:
        session.run(
            _PATTERN_KEYS,
            key=key,
            patterns=name(f"closing_{stream}"),
            partitions=_partitions(stage, stream),
            within=within({column: f"k.{name(key_column(column))}" for column in kinds}),
        )
    own = [fill(_NAMED, key=key, named=name(f"named_{stream}")) for stream in stage.inputs]
    session.run(_FINAL_KEYS, key=key, named=" UNION ".join(own))


def _add_keys(session: Session, stage: Stage) -> None:
    kinds = stage.key_types
    find_final_keys(session, stage)
    for given in stage.shown_inputs:
        columns = dict(zip(stage.key_columns(given), kinds, strict=True))
        scalars = {
            column: scalar(f"k.{name(key_column(columns[column]))}", kinds[columns[column]])
            for column in sorted(columns)
        }
        members = ", ".join(f"{text(column)}: {{'equals': {value}}}" for column, value in scalars.items())
        written_key = f"{{{members}}}"
        session.run(_KEYS, written=written_key)
        session.run(_UNCERTAIN_KEYS, written=written_key)


def _partitions(stage: Stage, given: str) -> str:
    """The SQL of the number of partitions of an input."""
    if given == stage.derived:
        return "1"
    topics = topics_of(stage.pipeline, given)
    return fill("(SELECT count(*) FROM ranges WHERE topic IN ($topics))", topics=topics)


def scalar(value: str, kind: ColumnType) -> str:
    """The SQL of a value as in `spelled`, but with decimals that have no zeros at the end."""
    if kind.domain is Domain.DECIMAL:
        return rf"regexp_replace({spelled(value, kind)}, '\.0*$$|(\.[0-9]*[1-9])0*$$', '\1')"
    return spelled(value, kind)


def _add_patterns(session: Session, stage: Stage, stream: str) -> None:
    """Add the patterns of a stream to `announced_patterns`."""
    declared, key = stage.pipeline.inputs[stream], stage.key
    known = declared.columns | stage.key_types
    kinds = {column: known[column] for column in wider_columns(declared, key)}
    promised: dict[int, list[Promise]] = {}
    news: list[Promise] = []
    kept = {}
    for table, columns in (("patterns", key), ("wider", tuple(kinds))):
        for row in session.run("FROM $promises", promises=name(f"{table}_{stream}")):
            bounds = {column: bound_of(row, column) for column in columns}
            kept[row["partition"], row["offset"]] = {
                column: tuple(spans_of(bound, kinds[column]))
                for column, bound in bounds.items()
                if bound is not None
            }
    for (partition, _), promise in sorted(kept.items(), key=lambda one: one[0]):
        before = promised.setdefault(partition, [])
        if all(promise.values()):
            if not _includes(before, promise) and promise not in news:
                news.append(promise)
            before.append(promise)
    topics = topics_of(stage.pipeline, stream)
    partitions = session.run("SELECT count(*) AS n FROM ranges WHERE topic IN ($topics)", topics=topics)
    if len(promised) < partitions[0]["n"]:
        return
    complete = [one for one in news if all(_includes(others, one) for others in promised.values())]
    waiting = []  # a stream without a join has no live rows
    if stage.join is not None:
        waiting = [kept[place] for place in _matched(session, stage, stream, kinds, "lowest")]
        if is_uncertain(stage):
            bound = [kept[place] for place in _matched(session, stage, stream, kinds, "highest")]
            perhaps = [one for one in complete if one in waiting and one not in bound]
            _announce(session, _texts(stage, stream, perhaps, kinds), "uncertain_punctuations")
    over = [one for one in complete if one not in waiting]
    if stage.join is not None and forgets(stage.pipeline):
        held = [kept[place] for place in _held_back(session, stage, stream, kinds)]
        perhaps = [one for one in over if one in held]
        _announce(session, _texts(stage, stream, perhaps, kinds), "uncertain_punctuations")
        over = [one for one in over if one not in held]
    _announce(session, _texts(stage, stream, over, kinds), "announced_patterns")


def _add_derived_patterns(session: Session, stage: Stage, given: str) -> None:
    """Add the patterns of a derived stream to `announced_patterns`, or to `uncertain_punctuations`."""
    wider = dict(stage.columns.arriving(given))
    kinds = stage.key_types | {column: wider[column] for column in stage.promises.beside_key}
    kept: dict[tuple[int, int], Promise] = {}
    rows = []
    for table, columns in (("patterns", stage.key), ("wider", tuple(kinds))):
        found = session.run("FROM $promises", promises=name(f"{table}_{given}"))
        rows += found
        for row in found:
            bounds = {column: bound for column in columns if (bound := bound_of(row, column)) is not None}
            kept[row["partition"], row["offset"]] = {
                column: tuple(spans_of(bound, kinds[column])) for column, bound in bounds.items()
            }
    live = [] if stage.join is None else _matched(session, stage, given, kinds, "lowest")
    surely_live = live
    if stage.join is not None and is_uncertain(stage):
        surely_live = _matched(session, stage, given, kinds, "highest")
    for row in rows:
        place = row["partition"], row["offset"]
        others = [promise for other, promise in kept.items() if other != place]
        required = row["sure"] and place not in live and not _includes(others, kept[place])
        if place not in surely_live:
            table = "announced_patterns" if required else "uncertain_punctuations"
            _announce(session, _texts(stage, given, [kept[place]], kinds), table)


def _announce(session: Session, written: Iterable[str], table: str) -> None:
    for each in written:
        session.run("INSERT INTO $table VALUES (json(?)::VARCHAR)", [each], table=table)


def _matched(
    session: Session, stage: Stage, stream: str, kinds: Mapping[str, ColumnType], reached: str
) -> list[tuple[int, int]]:
    """Find the promises that live rows match.

    Args:
        session: the session.
        stage: the stage.
        stream: the stream whose promises and rows these are.
        kinds: the types of the columns that promises restrict.
        reached: the bound of the other streams' progress, `lowest` or `highest`, that decides which rows
            live.

    Returns:
        The partitions and offsets of these promises.
    """
    live = name(f"live_{stream}_{reached}")
    session.run("CREATE TABLE $live AS $rows", live=live, rows=live_rows(stage, stream, reached))
    return _matching(session, stage, stream, kinds, live)


def _held_back(
    session: Session, stage: Stage, stream: str, kinds: Mapping[str, ColumnType]
) -> list[tuple[int, int]]:
    """Find the promises that rows match which would live if all closed keys were forgotten."""
    live = name(f"remembered_{stream}")
    session.run("CREATE TABLE $live AS $rows", live=live, rows=rows_of_open_keys(stage, stream, "lowest"))
    return _matching(session, stage, stream, kinds, live)


def _matching(
    session: Session, stage: Stage, stream: str, kinds: Mapping[str, ColumnType], live: str
) -> list[tuple[int, int]]:
    """Return the partitions and offsets of the promises of a stream that rows of the table `live` match."""
    found = []
    for table, columns in (("patterns", stage.key), ("wider", tuple(kinds))):
        own = {column: f"r.{name(_in_results(stage, stream, column))}" for column in columns}
        there = [
            fill(_NO_NULL, own=own[column], restricted=name(f"{key_column(column)}_low_open"))
            for column in columns
        ]
        matching = " AND ".join([within(own), *there])
        found += session.run(_MATCHED, promises=name(f"{table}_{stream}"), live=live, within=matching)
    return [(row["partition"], row["offset"]) for row in found]


def _includes(promises: Sequence[Promise], one: Promise) -> bool:
    """Return whether the union of the promises on one column, or one on several, includes a promise."""
    for column, spans in one.items():
        union = [span for each in promises if each.keys() == {column} for span in each[column]]
        if _covers(union, spans):
            return True
    return any(
        all(column in one and _covers(spans, one[column]) for column, spans in each.items())
        for each in promises
        if len(each) != 1
    )


def _covers(spans: Sequence[Span], others: Sequence[Span]) -> bool:
    joined: list[list[Any]] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    return all(any(known[0] <= low and high <= known[1] for known in joined) for low, high in others)


def _texts(
    stage: Stage, stream: str, promises: Sequence[Promise], kinds: Mapping[str, ColumnType]
) -> Iterator[str]:
    key = stage.key
    # Rows of a preserved side are results by themselves, and a stream that punctuates its key says it itself.
    # So does a derived stream. If results have no column of this stream, the others say it in any case.
    others = [
        side.stream
        for side in join_sides(stage)
        if side.stream != stream
        and not side.preserved
        and not (stream in stage.shown_inputs and _punctuates_key(stage, side.stream))
    ]
    for promise in promises:
        patterns = {column: written(spans, kinds[column]) for column, spans in promise.items()}
        patterns = patterns or {key[0]: {"between": {}}}
        on_key = patterns.keys() <= set(key)
        ordered = sorted(patterns, key=lambda column: _in_results(stage, stream, column))
        for each in (stream, *others) if on_key else (stream,):
            if each in stage.shown_inputs:
                yield json.dumps({_in_results(stage, each, column): patterns[column] for column in ordered})


def _punctuates_key(stage: Stage, given: str) -> bool:
    return given == stage.derived or set(stage.key) <= set(stage.pipeline.inputs[given].promised_on)


def _in_results(stage: Stage, given: str, column: str) -> str:
    """The name that results have for a column of the key, or for another one that promises restrict."""
    if column in stage.key:
        return stage.key_columns(given)[stage.key.index(column)]
    return column if given == stage.derived else f"{given}_{column}"
