"""The JSON of what lookups would yield with other memory."""

from __future__ import annotations

from pydantic import BaseModel, Field

from endmark.control.forecasts import ForMemory

BATCHES = 10  # that figures are the average of


class WhatIf(BaseModel):
    """The predicted yield of a lookup on one core with other memory, by the costs of the last batches."""

    relation: str
    knob: str = Field(description="that turns its memory")
    memory: int = Field(description="that rows may take which wait, as it is")
    waits: bool = Field(description="whether any may wait; else memory is of no consequence")
    relation_rows: int
    page_rows: int
    batch_rows: float = Field(description="stream rows of a batch that the cache has not answered")
    exponent: float = Field(description="of the Zipf distribution of the stream's keys; 0 is uniform")
    costs: dict[str, float] = Field(description="seconds, by what `lookup_cost_seconds` counts, and `wait`")
    by_memory: list[ForMemory]


class WhatIfs(BaseModel):
    """One of each lookup whose job has told what it costs."""

    what_ifs: list[WhatIf]
