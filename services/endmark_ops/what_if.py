"""Models of the JSON that predicts lookups with other memory."""

from __future__ import annotations

from pydantic import BaseModel, Field

from endmark.control.forecasts import WAITING, ForMemory

BATCHES = 10  # figures are averages over so many last batches


class Yield(BaseModel):
    """The predicted yield of a strategy on one core, with as many waiting rows as in the last batches."""

    strategy: str
    reads: str = Field(description="what it reads next")
    rate: float = Field(description="stream rows a second")
    rows_per_read: float = Field(description="stream rows that one read answers: a page, key, list or scan")
    read_seconds: float = Field(description="seconds of one read, with all that belongs to its rows")


class WhatIf(BaseModel):
    """The predicted rates of a lookup on one core with other memory, from the costs of the last batches."""

    relation: str
    knob: str = Field(description="name of the knob that sets the lookup's memory")
    memory: int = Field(description="bytes that waiting rows may take now")
    waits: bool = Field(description="whether rows may wait for a later batch; if not, memory changes nothing")
    relation_rows: int
    page_rows: int
    batch_rows: float = Field(description="stream rows in a batch that the cache has not answered")
    exponent: float = Field(description="Zipf exponent of the stream's keys; 0 is uniform")
    costs: dict[str, float] = Field(
        description="seconds of each part that `lookup_cost_seconds` has, and of a row's `wait` in a batch"
    )
    strategy: str = Field(description="the strategy in force")
    reads: str = Field(description="what the strategy in force reads next")
    paper: str = Field(description="the paper's name of the strategy in force; empty if no paper has it")
    waiting_rows: float = Field(description="rows that waited after a batch, on average")
    in_force: Yield | None = Field(description="null if the strategy in force has no equations")
    auto: Yield = Field(description="the strategy whose reads `auto` would choose by the same costs")
    waiting: list[str] = Field(description=WAITING)
    by_memory: list[ForMemory]


class WhatIfs(BaseModel):
    """The predictions, one for each lookup whose costs the job has reported."""

    what_ifs: list[WhatIf]
