"""Forecasts of lookups. `endmark plan` stores them for the sidecar, which cannot measure a relation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from pydantic import BaseModel, Field

from endmark.control.tables import forecasts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.control.database import OpsDatabase


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


def store(database: OpsDatabase, pipeline: str, forecast: LookupForecast) -> None:
    """Store a forecast; it replaces an earlier forecast of the same relation.

    Args:
        database: the ops database.
        pipeline: the pipeline's name.
        forecast: the forecast.
    """
    mine = (forecasts.c.pipeline == pipeline) & (forecasts.c.relation == forecast.relation)
    row = {"pipeline": pipeline, "relation": forecast.relation, "forecast": forecast.model_dump()}
    with database.engine.begin() as connection:
        connection.execute(forecasts.delete().where(mine))
        connection.execute(forecasts.insert().values(**row))


def newest_forecasts(database: OpsDatabase, pipeline: str) -> Sequence[LookupForecast]:
    """Return the newest forecast of each relation, in the order of the relations' names."""
    query = sa.select(forecasts.c.forecast).where(forecasts.c.pipeline == pipeline)
    with database.engine.connect() as connection:
        found = connection.execute(query.order_by(forecasts.c.relation)).scalars().all()
    return [LookupForecast.model_validate(each) for each in found]
