"""Forecasts of lookups and of the join. `endmark plan` stores them for the sidecar.

The sidecar cannot measure a relation, and what it predicted from the batches it measures would prove nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import sqlalchemy as sa
from pydantic import BaseModel, Field

from endmark.control.ops_database.tables import forecasts
from endmark.operators.stream_join.presets import Preset

if TYPE_CHECKING:
    from endmark.control.ops_database.database import OpsDatabase

WAITING = "names of the rates for which rows wait in memory for later batches"


class ForMemory(BaseModel):
    """Stream rows a second on one core by strategy, with `memory` bytes for waiting rows."""

    memory: int
    rates: dict[str, float]


class LookupForecast(BaseModel):
    """The forecast of one lookup; `by_memory` is in the order of rising memory."""

    relation: str
    made_at: float = Field(description="Unix seconds")
    relation_rows: int
    page_rows: int
    batch_rows: int = Field(description="stream rows of a batch")
    exponent: float = Field(description="of the Zipf distribution of the stream's keys; 0 is uniform")
    memory: int = Field(description="of which the others are parts and multiples")
    waiting: list[str] = Field(description=WAITING)
    by_memory: list[ForMemory]

    @property
    def step(self) -> str:
        """The key under which the forecast is stored."""
        return f"lookup.{self.relation}"


_JOIN = "join"
_GROWS = "null: it grows for ever"


class StreamPremises(BaseModel):
    """The figures of one stream from which the join was predicted."""

    stream: str
    rate: float = Field(description="rows a second")
    interval: float | None = Field(description="rows between two punctuations; null: no punctuations")
    until_closed: float | None = Field(
        description="mean seconds from a row until the other stream closes its key; null: it never does"
    )
    row_bytes: float = Field(description="bytes of a row in state")


class StreamState(BaseModel):
    """The state that the join keeps of one stream."""

    stream: str
    rows: float | None = Field(description=f"rows in state after a batch; {_GROWS}")
    bytes: float | None = Field(description=f"bytes of these rows; {_GROWS}")


class ForPreset(BaseModel):
    """The predicted state of the join under one preset."""

    preset: Preset
    frees: list[Literal["punctuations", "windows"]] = Field(description="what makes rows leave state")
    streams: list[StreamState] = Field(description="the left stream first")
    announced_after: float | None = Field(
        description="mean seconds from a key's first punctuation until it is announced; null: some never are"
    )


class JoinStateForecast(BaseModel):
    """The forecast of the join's state under each preset, with the windows of the pipeline file."""

    made_at: float = Field(description="Unix seconds")
    preset: Preset = Field(description="the preset in the pipeline file")
    windows: list[float | None] = Field(description="seconds, of the left stream first; null: for ever")
    purge_every: int = Field(description="punctuations of a stream that wait until state is purged")
    measured_until: float | None = Field(
        description="Unix seconds of the newest batch that figures were measured in; null: all were given"
    )
    given: bool = Field(description="whether some figures were given to the command")
    lag: float | None = Field(
        description="mean seconds between the two streams' punctuations of a key; null: not known"
    )
    left_first: float = Field(description="the share of keys that the left stream closes first")
    batch_seconds: float = Field(description="seconds from one batch to the next")
    streams: list[StreamPremises] = Field(description="the left stream first")
    by_preset: list[ForPreset]

    @property
    def step(self) -> str:
        """The key under which the forecast is stored."""
        return _JOIN


class Stored(NamedTuple):
    """The newest forecasts of a pipeline: of each lookup, by the relation's name, and of the join."""

    lookups: list[LookupForecast]
    join: JoinStateForecast | None


def store(database: OpsDatabase, pipeline: str, forecast: LookupForecast | JoinStateForecast) -> None:
    """Store a forecast; it replaces an earlier forecast of the same relation, or of the join.

    Args:
        database: the ops database.
        pipeline: the pipeline's name.
        forecast: the forecast.
    """
    mine = (forecasts.c.pipeline == pipeline) & (forecasts.c.step == forecast.step)
    row = {"pipeline": pipeline, "step": forecast.step, "forecast": forecast.model_dump(mode="json")}
    with database.engine.begin() as connection:
        connection.execute(forecasts.delete().where(mine))
        connection.execute(forecasts.insert().values(**row))


def newest_forecasts(database: OpsDatabase, pipeline: str) -> Stored:
    """Return the newest forecasts of a pipeline's lookups and of its join."""
    query = sa.select(forecasts.c.step, forecasts.c.forecast).where(forecasts.c.pipeline == pipeline)
    with database.engine.connect() as connection:
        found = {row.step: row.forecast for row in connection.execute(query.order_by(forecasts.c.step))}
    join = found.pop(_JOIN, None)
    return Stored(
        [LookupForecast.model_validate(each) for each in found.values()],
        None if join is None else JoinStateForecast.model_validate(join),
    )
