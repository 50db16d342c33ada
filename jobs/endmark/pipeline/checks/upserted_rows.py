"""Checks of a table that has the newest row of each key of a stream, such as the copy of a database's table.

A record that makes no row would leave the older row of its key in the table. So each record must make one
row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.pipeline.fields import require_key_column
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.steps.lookup import LookupStep
from endmark.pipeline.steps.rows import RowStep

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.sources import Stream
    from endmark.pipeline.tables import Table


def require_replaceable(pipeline: Pipeline, source: str, table: Table, field: str) -> None:
    """Refuse a table whose rows cannot replace each other.

    Args:
        pipeline: the pipeline.
        source: the stream or step whose rows the table has.
        table: the table, which is upserted.
        field: the field of the table, for the error.

    Raises:
        ValueError: the table has no key, or another one than the pipeline; a step may leave a row out or make
            several of it; or the stream does not say what an update or a deletion is.
    """
    stream, path = pipeline.flow.path_to(source)
    if stream in pipeline.flow.unions:
        raise ValueError(
            f"{field}.mode: a key of an upserted table lives in one partition, and {stream} has those of "
            "several topics; leave it out, or write the table in a pipeline of one of these streams alone"
        )
    _check_key(pipeline, source, table, field)
    _check_steps(pipeline, stream, path, field)
    _check_stream(pipeline.streams[stream], f"streams.{stream}", table)


def _check_key(pipeline: Pipeline, source: str, table: Table, field: str) -> None:
    """Refuse a table without a key, or with another one than the pipeline."""
    stream, _ = pipeline.flow.path_to(source)
    columns, stage = pipeline.row_columns(source), pipeline.stage_of(stream)
    declared = pipeline.streams[stream].columns
    if not table.key:
        example = ", ".join(stage.key)
        raise ValueError(
            f"{field}.key: name the columns by which a row of {source} replaces an earlier one, such as "
            f"[{example}]"
        )
    for name in table.key:
        require_key_column(columns, name, f"{field}.key")
        if columns[name].nullable:
            mend = (
                f"declare it {columns[name].required}"
                if name in declared
                else f"it is derived, so name a column of streams.{stream}, or rename one by its taken_from"
            )
            raise ValueError(f"{field}.key: column {name!r} may be null, which is no key; {mend}")
    if set(table.key) != set(stage.key):
        named_by, key = stage.named_key
        raise ValueError(
            f"{field}.key: {', '.join(table.key)} is not {', '.join(key)} of {named_by}, by which the job "
            "distributes rows; name that, or write the table in a pipeline of this stream alone"
        )


def _check_steps(pipeline: Pipeline, stream: str, path: tuple[str, ...], field: str) -> None:
    """Refuse steps that leave a row out or make several of it; `path` has those up to the table."""
    stage = pipeline.stage_of(stream)
    for name in pipeline.flow.paths[stream]:
        step = pipeline.steps[name]
        if isinstance(step, RowStep) and step.where is not None:
            raise ValueError(
                f"{field}: steps.{name}.where leaves out rows of {stream}, and the table would keep the "
                "older rows of their keys; derive a column instead, or filter where the table is read"
            )
        if name in stage.columns.looked_up_steps(stream):
            raise ValueError(
                f"{field}: a row on which steps.{name} fails behind a lookup would leave the older row of "
                "its key; derive columns in front of the lookup, or where the table is read"
            )
        if isinstance(step, RowStep) and step.deduplicate is not None:
            raise ValueError(
                f"{field}: steps.{name}.deduplicate drops rows of {stream}, and the table would keep the "
                "older rows of their keys; leave it out, since the newest row replaces the others anyhow"
            )
        if isinstance(step, LookupStep) and _loses(step, looked_up=name in path):
            raise ValueError(
                f"{field}: lookup {name} may lose or repeat rows of {stream}, and the table would keep older "
                f"rows of their keys; let steps.{name}.lookup have miss: nulls and at most one match"
            )


def _loses(step: LookupStep, *, looked_up: bool) -> bool:
    """Return whether a lookup makes no row, or several, of some rows of a table."""
    if looked_up:
        return step.lookup.fate != "nulls" or not step.lookup.unique
    return step.lookup.fate == "dead_letter"


def _check_stream(stream: Stream, field: str, table: Table) -> None:
    if stream.punctuation_scope != "partition":
        raise ValueError(
            f"{field}.punctuation_scope: a key of an upserted table lives in one partition, which has its "
            "rows in order; leave it out"
        )
    if not FORMATS[stream.format].deletions:
        return
    if stream.updates != "rows":
        raise ValueError(
            f"{field}.updates: an update would be a dead letter, and no row of an upserted table; write rows"
        )
    if stream.punctuated_on and set(stream.punctuated_on) != set(table.key):
        raise ValueError(
            f"{field}.punctuated_on: a deletion names these columns, and removes the row with this key from "
            f"an upserted table; write [{', '.join(table.key)}], or leave it out if deleted keys come again"
        )
