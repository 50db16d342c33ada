"""The JSON that the sidecar answers with. Times are Unix seconds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from endmark.control.description import LookupDescription
from endmark.control.forecasts import LookupForecast
from endmark_ops.health import State


class Alive(BaseModel):
    """The process answers."""

    status: Literal["alive"] = "alive"


class Readiness(BaseModel):
    """The readiness of the pipeline; `reasons` says why it does not move."""

    ready: bool
    reasons: list[str]


class Problem(BaseModel):
    """Why a request could not be answered."""

    detail: str


class RunInfo(BaseModel):
    """One start of the job. `uptime_seconds` ends when the run does."""

    run_id: str
    state: str
    started_at: float
    stopped_at: float | None
    uptime_seconds: float
    error: str | None
    heartbeat_age_seconds: float | None = Field(description="since its driver gave a sign of life")


class LastBatch(BaseModel):
    """The batch committed last."""

    batch_id: int
    run_id: str
    committed_at: float
    age_seconds: float


class Sample(BaseModel):
    """One series of a metric."""

    labels: dict[str, str]
    value: float


class Total(BaseModel):
    """A metric after the last batch: counters since the first batch, gauges of the last one."""

    name: str
    kind: Literal["counter", "gauge"]
    unit: str
    help: str
    samples: list[Sample]


class Holder(BaseModel):
    """The partition that holds a stream's time back; `behind_seconds` is null while it has shown no row."""

    partition: int
    behind_seconds: float | None


class PendingPunctuations(BaseModel):
    """Punctuations not announced yet, and what they wait for: `window` or `closing`."""

    waits_for: str
    punctuations: int


class StreamProgress(BaseModel):
    """The progress of a stream; `event_time` is null until every partition has shown a row."""

    stream: str
    event_time: float | None
    behind_seconds: float | None = Field(description="of the stream's newest row, lateness included")
    held_by: Holder | None
    idle: list[int] = Field(description="partitions silent for so long that they are not waited for")
    pending: list[PendingPunctuations]
    sentence: str


class Status(BaseModel):
    """The pipeline as of `now`.

    `state` is `stale` when a running job committed nothing for too long, and `lost` when a run has not told
    of its end, but its driver gives no sign of life.
    """

    pipeline: str
    state: State
    now: float
    stale_seconds: float
    run: RunInfo | None
    last_batch: LastBatch | None
    lag_records: int | None = Field(
        description="records in Kafka that no batch has read, whether or not the job runs; null: not known"
    )
    progress: list[StreamProgress]
    totals: list[Total]


class BatchPoint(BaseModel):
    """One batch for charts: its own samples, and the totals after it."""

    batch_id: int
    run_id: str
    committed_at: float
    samples: dict[str, float]
    totals: dict[str, float]


class Batches(BaseModel):
    """Batches with ids above the one asked for, oldest first; the newest ones when there are too many."""

    batches: list[BatchPoint]


class News(BaseModel):
    """The news of a job: its status, and the batches with ids above `after`, oldest first.

    They replace those that a client has of these ids, since a batch may be told more of, or be repeated. Who
    has none as high as `after` has missed some.
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
    Field(min_length=1, max_length=100, description="who does it, besides the token's name"),
    AfterValidator(_printable),
]


class TurnInfo(BaseModel):
    """A knob was set, or refused. Durations are in seconds."""

    batch_id: int = Field(description="that read it; it holds from the next one on")
    partition: int
    offset: int = Field(description="of its control record")
    set_at: float
    by: str
    name: str
    before: Any
    value: Any
    refused: str | None = Field(description="why")
    why: str | None = Field(description="it was turned, if whoever did so has said")


class Knob(BaseModel):
    """A field of the pipeline file that may be turned while the job runs. Durations are in seconds."""

    name: str
    kind: Literal["choice", "duration", "size", "number"]
    choices: list[str] = Field(description="all values, if `kind` is choice")
    values: str = Field(description="what values there are")
    default: Any = Field(description="where the pipeline file says nothing")
    filed: Any = Field(description="in the pipeline file")
    value: Any = Field(description="that holds, as far as the last batch told")
    effect: str
    applies: Literal["live", "turn"] = Field(
        description="both from the next batch on; what is live may be said in the file instead"
    )
    turned: bool


class FileField(BaseModel):
    """The way in which a field of the pipeline file may change, with all fields below it without a name."""

    name: str = Field(description="`*` is any name; a lookup's are the same in a list of lookups")
    change: Literal["live", "turn", "restart", "new checkpoint"]
    advice: str = Field(description="how to make such a change")
    remark: str


class Knobs(BaseModel):
    """All knobs, what any field of the file takes, and who turned what, newest first."""

    knobs: list[Knob]
    fields: list[FileField]
    history: list[TurnInfo]


class SetKnob(BaseModel):
    """A value as the pipeline file spells it; durations may be seconds."""

    value: Any
    by: By | None = None


class Revert(BaseModel):
    """`before` is the value before the last turn, `file` the pipeline file's."""

    to: Literal["before", "file"] = "before"
    by: By | None = None


class Sent(BaseModel):
    """The record that was sent: the job has read it once a batch is past this offset."""

    topic: str
    partition: int
    offset: int
    by: str


class Replayed(BaseModel):
    """A dead letter was sent to its partition once more; `to_offset` is null while it is sent."""

    at: float
    by: str
    changed: bool
    to_offset: int | None


class DeadLetterInfo(BaseModel):
    """A record that could not be read, or had no match."""

    at: str = Field(description="topic/partition/offset")
    reason: str
    error: str
    text: str | None = Field(
        description="the value, or how it begins; null if it is no text, or there is none"
    )
    base64: str | None = Field(description="likewise, if it is no text")
    whole: bool = Field(description="whether that is all of the value")
    replayed: Replayed | None


class DeadLetters(BaseModel):
    """A page of dead letters, greater offsets first. `after` asks for the next one; null if there is none."""

    letters: list[DeadLetterInfo]
    after: str | None


class ReplayLetter(BaseModel):
    """The dead letter that is sent once more, and the value that is sent in its place."""

    at: str = Field(description="topic/partition/offset")
    text: str | None = Field(default=None, max_length=1_000_000, description="null: its own value as it is")
    by: By | None = None


class StreamInfo(BaseModel):
    """A stream and its topic."""

    name: str
    topic: str


class PipelineInfo(BaseModel):
    """The pipeline of the latest job; the left stream is the first, `tables` has their directories."""

    streams: list[StreamInfo]
    lookups: list[LookupDescription]
    aggregate: bool
    publish: str | None
    control_topic: str
    tables: dict[str, str]


class PipelineAnswer(BaseModel):
    """The pipeline, if a job has told of it."""

    pipeline: PipelineInfo | None


class Forecasts(BaseModel):
    """One of each relation that was asked about, by name."""

    forecasts: list[LookupForecast]
