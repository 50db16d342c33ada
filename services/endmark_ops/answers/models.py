"""Models of the JSON that the sidecar takes and answers with. Times are Unix seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from endmark.control.description import (
    GapDescription,
    LookupDescription,
    SinkDescription,
    StateDescription,
    StepDescription,
)
from endmark.control.ops_database.forecasts import (
    WAITING,
    ForMemory,
    JoinStateForecast,
    LookupForecast,
    StreamState,
)
from endmark.operators.stream_join.presets import Preset
from endmark_ops.answers.health import State


class Alive(BaseModel):
    """The answer of a process that is alive."""

    status: Literal["alive"] = "alive"


class Readiness(BaseModel):
    """The readiness of the pipeline; `reasons` says why it is not ready, and is empty when it is."""

    ready: bool
    reasons: list[str]


class Problem(BaseModel):
    """The reason why a request was not answered."""

    detail: str


class RunInfo(BaseModel):
    """One run of the job, from its start to its end. `uptime_seconds` stops growing when the run ends."""

    run_id: str
    state: str
    started_at: float
    stopped_at: float | None
    uptime_seconds: float
    error: str | None
    sign_of_life_age_seconds: float | None = Field(description="seconds since its driver gave a sign of life")


class LastBatch(BaseModel):
    """The batch committed last."""

    batch_id: int
    run_id: str
    committed_at: float
    age_seconds: float
    seconds: float | None = Field(description="how long the batch took; null: not measured")


class Sample(BaseModel):
    """One series of a metric."""

    labels: dict[str, str]
    value: float


class Total(BaseModel):
    """A metric after the last batch. Counters count since the first batch; gauges are of the last one."""

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    help: str
    samples: list[Sample]


class Holder(BaseModel):
    """The partition that holds back a stream's progress; `behind_seconds` is null while it has had no row."""

    partition: int
    behind_seconds: float | None


class PendingPunctuations(BaseModel):
    """The number of punctuations that are not announced yet for one reason, `waits_for`.

    They wait for their last rows to leave the window (`window`), or for other streams to close their keys
    (`closing`).
    """

    waits_for: str
    punctuations: int


class StreamProgress(BaseModel):
    """The progress of a stream; `event_time` is null until every partition has had a row."""

    stream: str
    event_time: float | None
    behind_seconds: float | None = Field(
        description="seconds from `event_time` to the event time of the stream's newest row, with lateness"
    )
    held_by: Holder | None
    idle: list[int] = Field(description="partitions so long without a record that nothing waits for them")
    pending: list[PendingPunctuations]
    sentence: str


class StreamLatency(BaseModel):
    """The seconds from Kafka's timestamp of a record to the commit of the batch that read it.

    Half of a stream's records do not exceed `p50_seconds`, and 99 of 100 do not exceed `p99_seconds`. Only
    records that were committed in the last five minutes count. A latency of more than a day is told as a day.
    """

    stream: str
    p50_seconds: float
    p99_seconds: float


class Status(BaseModel):
    """The state of the pipeline at the time `now`.

    `state` is `stale` when a running job has committed nothing for more than `stale_seconds`, though records
    wait or may wait. It is `lost` when no end of the latest run is stored, but its driver gives no sign of
    life.
    """

    pipeline: str
    state: State
    now: float
    stale_seconds: float
    run: RunInfo | None
    last_batch: LastBatch | None
    lag_records: int | None = Field(
        description="records in Kafka that no batch has read, also while no job runs; null: not known"
    )
    lag_by_topic: dict[str, int] | None = Field(description="the same by topic; null: not known")
    gaps: list[GapDescription] = Field(description="offsets that the job has skipped, oldest gap first")
    progress: list[StreamProgress]
    latency: list[StreamLatency] = Field(description="streams without a record in that time are left out")
    totals: list[Total]


class OldestProgress(BaseModel):
    """The stream whose progress is the oldest; `event_time` is null until each partition has had a row."""

    stream: str
    event_time: float | None
    behind_seconds: float | None


class PipelineOverview(BaseModel):
    """A pipeline as one line of a list, at the time `now`."""

    pipeline: str
    state: State
    now: float
    lag_records: int | None = Field(description="as in the pipeline's status; null: not known")
    records_per_second: float | None = Field(
        description="records read a second, by the last batches; null: not known, or no job runs"
    )
    oldest_progress: OldestProgress | None
    last_batch_age_seconds: float | None
    alerts: list[str] = Field(description="what a person should look at, a sentence each")


class Pipelines(BaseModel):
    """The pipelines that the caller may see, sorted by name."""

    pipelines: list[PipelineOverview]


class BatchPoint(BaseModel):
    """One batch as a point of charts: its own samples, and the totals after it."""

    batch_id: int
    run_id: str
    committed_at: float
    samples: dict[str, float]
    totals: dict[str, float]


class Batches(BaseModel):
    """Batches with greater ids than `after`, oldest first; if they are more than `limit`, the newest ones."""

    batches: list[BatchPoint]


class News(BaseModel):
    """The news of a job: its status, and the batches with greater ids than `after`, oldest first.

    A client replaces its own batches of these ids, since a batch may get more figures later, or be repeated.
    A client whose newest batch has a smaller id than `after` has missed some.
    """

    after: int
    batches: list[BatchPoint]
    status: Status


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a name has letters that can be printed")
    return text


By = Annotated[
    str,
    Field(min_length=1, max_length=100, description="caller's name; audits show it beside the token's name"),
    AfterValidator(_printable),
]


class TurnInfo(BaseModel):
    """A turn of a knob that the job has taken or refused. Durations are in seconds."""

    batch_id: int = Field(description="the batch that read it; the value holds from the next batch on")
    partition: int
    offset: int = Field(description="offset of its record in the control topic")
    set_at: float
    by: str
    name: str
    before: Any
    value: Any
    refused: str | None = Field(description="why the job refused it; null if it took it")
    why: str | None = Field(description="why it was turned; null if that was not said")


class Knob(BaseModel):
    """A field of the pipeline file that may change while the job runs. Durations are in seconds."""

    name: str
    kind: Literal["choice", "duration", "size", "number"]
    choices: list[str] = Field(description="all values, if `kind` is choice")
    values: str = Field(description="the values that it may have, in words")
    default: Any = Field(description="the value if the pipeline file gives none")
    filed: Any = Field(description="the value by the pipeline file, or the default")
    value: Any = Field(description="the value that holds, as of the last batch")
    effect: str
    applies: Literal["live", "turn"] = Field(
        description="`turn`: only a turn changes it; `live`: the file may change it until its first turn"
    )
    turned: bool


class FileField(BaseModel):
    """A field of the pipeline file and how it may change. The same holds for unlisted fields below it."""

    name: str = Field(description="`*` is any name; a list of lookups has the same fields as a single lookup")
    change: Literal["live", "turn", "restart", "new checkpoint"]
    advice: str = Field(description="how to make such a change")
    remark: str


class Knobs(BaseModel):
    """All knobs, how each field of the pipeline file may change, and all turns so far, newest first."""

    knobs: list[Knob]
    fields: list[FileField]
    history: list[TurnInfo]


class SetKnob(BaseModel):
    """The new value of a knob, written as in the pipeline file; a duration may be a number of seconds."""

    value: Any
    by: By | None = None


class Revert(BaseModel):
    """The value that a knob goes back to: `before` is the one before its last turn, `file` the file's."""

    to: Literal["before", "file"] = "before"
    by: By | None = None


class Sent(BaseModel):
    """The control record that was sent. The job has read it once a batch is past its offset."""

    topic: str
    partition: int
    offset: int
    by: str


class Replayed(BaseModel):
    """The replay of a dead letter to its partition; `to_offset` is null while the record is being sent."""

    at: float
    by: str
    changed: bool
    to_offset: int | None


class DeadLetterInfo(BaseModel):
    """A dead letter: a record that could not be read, or had no match."""

    at: str = Field(description="topic/partition/offset")
    reason: str
    error: str
    text: str | None = Field(
        description="the value or its beginning, if it is text; null if it is not, or if there is no value"
    )
    base64: str | None = Field(
        description="the value or its beginning in base64, if it is not text; else null"
    )
    whole: bool = Field(description="whether `text` or `base64` has all of the value")
    replayed: Replayed | None


class DeadLetters(BaseModel):
    """A part of the dead letters that were found, greater offsets first.

    `after` is the parameter that asks for the next part; null if there is none.
    """

    letters: list[DeadLetterInfo]
    after: str | None


class ReplayLetter(BaseModel):
    """A request to send a dead letter once more, with its own value or with `text` in its place."""

    at: str = Field(description="topic/partition/offset")
    text: str | None = Field(default=None, max_length=1_000_000, description="null: its own value as it is")
    by: By | None = None


class Ask(BaseModel):
    """A question of what keeps a key open; `key` has the value of each of its columns, as a text."""

    key: dict[str, Annotated[str, Field(max_length=1_000)]]
    by: By | None = None


class KeyAnswer(BaseModel):
    """The answer for one step that has the key. The first sentence is the verdict; the others are of streams.

    A key is neither open nor final if the job knows nothing of it.
    """

    step: str
    open: bool
    final: bool
    sentences: list[str]


class Why(BaseModel):
    """The answers of a job, as of the end of a batch."""

    batch_id: int
    answers: list[KeyAnswer]


class StreamInfo(BaseModel):
    """A stream and its topic."""

    name: str
    topic: str


class PipelineInfo(BaseModel):
    """The pipeline of the latest job.

    Rows flow from the streams through the steps to the last one. A pipeline of one stream has no join.
    """

    streams: list[StreamInfo] = Field(description="in the order of the join's inputs")
    steps: list[StepDescription] = Field(description="as the pipeline file has them")
    tables: list[SinkDescription] = Field(description="with the step or stream whose rows each of them has")
    published: list[SinkDescription] = Field(description="the topics that get rows, likewise")
    control_topic: str
    keys: list[dict[str, str]] = Field(description="keys that the job may be asked for: types by column")
    lookups: list[LookupDescription] = Field(description="those of one stream in the order of its rows")
    states: list[StateDescription] = Field(description="with their bounds, as `endmark validate` says them")


class PipelineAnswer(BaseModel):
    """The pipeline of the latest job; null before a job has started."""

    pipeline: PipelineInfo | None


class MeasuredJoin(BaseModel):
    """The state of the join as the last batches measured it, of the preset and the windows that the job has.

    Batches that the forecast was made from are left out, since their figures are its premises.
    """

    batches: int = Field(description="the figures are averages over so many batches")
    preset: Preset
    windows: list[float | None] = Field(description="seconds, of the left stream first; null: for ever")
    streams: list[StreamState] = Field(description="the left stream first")
    announced_after: float | None = Field(
        description="mean seconds from a key's first punctuation until it was announced; null: not known"
    )


class Forecasts(BaseModel):
    """The newest forecasts of `endmark plan --ops-url`, and the state of the join as measured since."""

    lookups: list[LookupForecast] = Field(description="sorted by relation")
    join: JoinStateForecast | None = Field(description="null: none is stored")
    join_measured: MeasuredJoin | None = Field(
        description="null: there are fewer than two batches for it, or there is no join"
    )


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
