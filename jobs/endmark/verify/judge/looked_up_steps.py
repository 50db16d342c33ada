"""Applies the row steps behind lookups of a stream to its rows.

A record of which lookups have made several rows is a dead letter if a step leaves none of them, and an
expression of it fails on one.
"""

from __future__ import annotations

from endmark.expressions.row_steps import RowStep
from endmark.pipeline import Pipeline
from endmark.verify.join.sides import stream_names
from endmark.verify.judge.row_steps import FILTERED, rows_behind
from endmark.verify.session import Session, name

_CAME = "CREATE TABLE $table AS FROM $came"

_BEHIND = """
CREATE TABLE $made AS
SELECT t.* $derived FROM $table t JOIN arriving s ON t.rowid = s."#row" WHERE s."#fate" IS NULL
"""

_LEFT_OUT = """
INSERT INTO $found
SELECT $partition::BIGINT, $offset, bool_or("#fate" <> ?)
    AND ($partition, $offset) NOT IN (SELECT ($partition, $offset) FROM $made), 'expression'
FROM $table t JOIN arriving s ON t.rowid = s."#row" WHERE s."#fate" IS NOT NULL
GROUP BY $partition, $offset
"""

_LETTERS = """
INSERT INTO expected_dead_letters BY NAME
SELECT topic, "partition", "offset", value,
    (SELECT f.reason FROM $found f WHERE f.part = m.part AND f.off = m.off AND f.refused) AS reason
FROM records JOIN $missed m ON "partition" = part AND "offset" = off
WHERE topic = ? AND refused
"""


def step_looked_up(
    session: Session, pipeline: Pipeline, stream: str, step: RowStep, came: str, found: str
) -> str:
    """Run one step, and return the SQL name of the table with the rows behind it.

    Args:
        session: the session.
        pipeline: the pipeline.
        stream: the stream whose rows these are.
        step: the step.
        came: the SQL name of the rows in front of it.
        found: the SQL name of the table that gets the places of the rows that the step leaves out.
    """
    table, made = f"before_step_{step.name}", name(f"behind_step_{step.name}")
    session.run(_CAME, table=name(table), came=came)
    columns = [each["column_name"] for each in session.run("DESCRIBE $table", table=name(table))]
    needed = {*step.columns, *(() if step.where is None else step.where.columns)}
    needed |= {column for derivation in step.derived.values() for column in derivation.expression.columns}
    known = [column for column in columns if column in needed]
    arriving = rows_behind(session, [step], table, known)
    derived = "".join(f", s.{name(column)}" for column in step.added)
    parts = {"table": name(table), "made": made, **_places(pipeline, stream)}
    session.run_on(arriving, _BEHIND, derived=derived, **parts)
    session.run_on(arriving, _LEFT_OUT, [FILTERED], found=found, **parts)
    return made


def expect_letters(session: Session, topic: str, missed: str, found: str) -> None:
    """Expect the dead letters of the records that lookups and row steps refuse.

    Args:
        session: the session.
        topic: the topic of the records.
        missed: the SQL name of their places.
        found: the SQL name of the places at each step, with the reason.
    """
    session.run(_LETTERS, [topic], missed=missed, found=found)


def _places(pipeline: Pipeline, stream: str) -> dict[str, str]:
    known = stream_names(pipeline, stream)
    return {"partition": known["partition"], "offset": known["offset"]}
