"""Rows of streams and steps in front of the join, as tables and topics get them.

They leave a bucket where the join takes them, since only then it is known that they are no violations. A row
that a lookup has dropped is among the rows of its stream. One that is a dead letter is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.engine.bucket.lookup_levels import placed_steps
from endmark.engine.streams import arrow_schema
from endmark.operators.lookup.gate import MISSED
from endmark.pipeline import COORDINATES
from endmark.pipeline.tables import step_of
from endmark.state import codec, search
from endmark.state.segment import int64, taken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.streams import StreamPlan
    from endmark.pipeline.stage import Stage
    from endmark.state.keys import KeySpec


@dataclass(frozen=True)
class WrittenStep:
    """A stream or step in front of the join whose rows leave a bucket.

    Args:
        role: the kind of its rows, which is their channel.
        stream: the stream whose rows it has.
        schema: its columns, named as in results.
        looks_up: whether a lookup is among its steps. If not, it has one row of each record, and those that
            lookups have dropped, too.
        refusing: the numbers of the stream's lookups that make dead letters of rows without a match, and of
            expressions behind lookups.
        key: the columns of `schema` of which only the newest row of each value leaves; empty if all rows do.
        deleted: the columns of deleted keys, one for each of `key`.
    """

    role: str
    stream: str
    schema: pa.Schema
    looks_up: bool
    refusing: tuple[int, ...] = ()
    key: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the stream or step."""
        return step_of(self.role)

    def rows(self, joined: pa.RecordBatch | None, given_up: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the rows of the step in one batch.

        Args:
            joined: the rows of the stream that the join takes; `None` without any.
            given_up: the rows that lookups have given up and that are no violations; `None` without any.
        """
        found = []
        if joined is not None:
            found.append(joined if self.looks_up else self._records(joined))
        if given_up is not None and not self.looks_up:
            refused = np.isin(int64(given_up.column(MISSED)), self.refusing)
            found.append(given_up.filter(pa.array(~refused)))
        if not found:
            return pa.RecordBatch.from_pylist([], self.schema)
        return codec.concat([rows.select(self.schema.names) for rows in found])

    def _records(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return one row of each record. Lookups may have made several rows of a record."""
        coordinates = [int64(rows.column(f"{self.stream}_{name}")) for name in COORDINATES]
        return taken(rows, search.firsts(coordinates))


def written_steps(
    stage: Stage, streams: Mapping[str, StreamPlan], lookups: Sequence[LookupPlan]
) -> tuple[WrittenStep, ...]:
    """Return the streams and steps in front of the join of a stage that a table or a topic needs.

    Args:
        stage: the stage.
        streams: the plans of its inputs, by name.
        lookups: the plans of its lookups; those of one stream in their order.
    """
    found, pipeline = [], stage.pipeline
    for role in pipeline.outputs.step_roles:
        if step_of(role) in pipeline.flow.ends:
            continue  # these rows leave on their way to the next stage
        stream, steps = pipeline.flow.path_to(step_of(role))
        if stream not in stage.inputs:
            continue
        key = pipeline.outputs.key_of(role)
        own = [lookup for lookup in lookups if lookup.stream == stream]
        found.append(
            WrittenStep(
                role=role,
                stream=stream,
                schema=arrow_schema(pipeline.outputs.columns_of(role)),
                looks_up=any(pipeline.steps[each].kind == "lookup" for each in steps),
                refusing=(
                    *(each.gate.number for each in own if each.fate == "dead_letter"),
                    *(number for each in placed_steps(pipeline, stream) for number in each.failing),
                ),
                key=key,
                deleted=_shared_columns(streams[stream].side.key, key),
            )
        )
    return tuple(found)


def _shared_columns(key: KeySpec, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that both sides share for some columns of a key."""
    return tuple(key.shared.columns[key.columns.index(name)] for name in names)
