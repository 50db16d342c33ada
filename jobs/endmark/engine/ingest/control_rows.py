"""Control records as packed rows for all buckets, and a report of each turn for the sink."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from endmark.control.questions.askable_keys import keys_of, require_askable
from endmark.control.tuning.knobs import Steps, steps_of, turned, unreadable
from endmark.engine import channels
from endmark.errors import ConfigError
from endmark.state.segment import int64
from endmark.wire.control import BAD_CONTROL, ControlError, Question, read_control
from endmark.wire.rejection import Rejection

if TYPE_CHECKING:
    import pyarrow as pa

    from endmark.engine.channels import Buckets, Packer
    from endmark.pipeline import Pipeline
    from endmark.types import ColumnType
    from endmark.wire.control import Turn

_SECOND = 1_000_000


@dataclass(frozen=True)
class ControlPlan:
    """The settings by which tasks read control records.

    Args:
        topic: the control topic.
        steps: the settings of the pipeline's steps that have knobs.
        keys: the keys of the pipeline's stages.
        unpaged: the reason why a lookup's relation has no pages, by the field of the lookup.
    """

    topic: str
    steps: Steps
    keys: tuple[dict[str, ColumnType], ...]
    unpaged: dict[str, str]

    @classmethod
    def of(cls, pipeline: Pipeline, unpaged: dict[str, str]) -> Self:
        return cls(pipeline.control_topic, steps_of(pipeline), keys_of(pipeline), unpaged)


@dataclass
class ControlPacker:
    """Packs the control records that a task reads.

    Args:
        packer: takes the packed rows.
        buckets: the buckets, all of which get each turn.
        plan: the control topic and the settings that have knobs.
        turns: collects accepted and refused turns, as rows of the ops database.
    """

    packer: Packer
    buckets: Buckets
    plan: ControlPlan
    turns: list[dict[str, Any]] = field(default_factory=list)

    def pack(self, partition: int, records: pa.RecordBatch) -> tuple[list[Rejection], Counter[str]]:
        """Pack records of one partition; return the rejected ones, and the others by what they ask for."""
        rejections, asked = [], Counter({"pulse": 0, "set": 0, "why": 0})
        times = int64(records.column("timestamp")).tolist()
        offsets = int64(records.column("offset")).tolist()
        for at, value in enumerate(records.column("value").to_pylist()):
            try:
                found = read_control(value)
            except ControlError as why:
                rejections.append(Rejection(at, why.reason, str(why), value))
                continue
            refused, asks = None, "pulse"
            if isinstance(found, Question):
                refused, asks = self._question(found, partition, offsets[at]), "why"
            elif found is not None:
                refused, asks = self._turn(found, partition, offsets[at], times[at]), "set"
            if refused is None:
                asked[asks] += 1
            else:
                rejections.append(Rejection(at, BAD_CONTROL, refused, value))
        return rejections, asked

    def _question(self, question: Question, partition: int, offset: int) -> str | None:
        """Pack a question for all buckets; return the reason why it is refused, or `None` if it is not."""
        try:
            require_askable(self.plan.keys, question.key)
        except ConfigError as why:
            return str(why)
        asked = {"partition": partition, "offset": offset, "key": dict(question.key)}
        for number, label in enumerate(self.buckets.labels):
            self.packer.add_json(label, channels.QUESTIONS, asked | {"bucket": number})
        return None

    def _turn(self, turn: Turn, partition: int, offset: int, time: int) -> str | None:
        """Pack a turn for all buckets; return the reason why it is refused, or `None` if it is not.

        Args:
            turn: the turn.
            partition, offset: the coordinates of its record.
            time: the timestamp of its record in Kafka, in microseconds since 1970.
        """
        value, refused, ignored = turn.value, None, None
        try:
            value = turned(self.plan.steps, turn.name, turn.value)
        except ConfigError as why:
            refused = str(why)
        else:
            ignored = unreadable(self.plan.unpaged, turn.name, value)
            knob = {"partition": partition, "offset": offset, "name": turn.name, "value": value}
            for label in self.buckets.labels if ignored is None else ():
                self.packer.add_json(label, channels.KNOBS, knob)
        self.turns.append(
            {
                "partition": partition,
                "offset": offset,
                "set_at": time / _SECOND,
                "by": turn.by,
                "name": turn.name,
                "value": value,
                "refused": refused or ignored,
                "why": turn.why,
            }
        )
        return refused
