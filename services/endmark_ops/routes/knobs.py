"""The routes that list knobs with their history, and that turn knobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Path, Query, Request

from endmark.control.tuning import knobs as known
from endmark.control.tuning.changes import LINES
from endmark.control.tuning.knobs import Steps
from endmark.errors import ConfigError
from endmark.kafka.sending import send
from endmark.wire.control import Turn
from endmark_ops.answers.models import FileField, Knob, Knobs, Revert, Sent, SetKnob, TurnInfo
from endmark_ops.routes.dependencies import (
    OF_PIPELINE,
    REFUSED,
    UNREADABLE,
    Broker,
    Caller,
    Described,
    Refusal,
    Source,
)

_FIELDS = [
    FileField(name=name, change=str(rule.change), advice=rule.change.advice, remark=rule.remark)
    for name, rule in LINES.items()
]
router = APIRouter(prefix=f"{OF_PIPELINE}/knobs", tags=["knobs"])


# The offset of the last turn that this sidecar has sent, by pipeline and knob.
LastSent = dict[tuple[str, str], int]


def _last_sent(request: Request) -> LastSent:
    return cast(LastSent, request.app.state.last_sent)


@dataclass(frozen=True)
class _Dial:
    """The sender of one caller's turns. It refuses turns that the job would refuse."""

    source: Source
    sent: Annotated[LastSent, Depends(_last_sent)]
    described: Described
    caller: Caller
    broker: Broker

    def require(self, name: str) -> None:
        steps = self.described.fields
        if name in (there := known.knobs_of(steps)):
            return
        if (reason := known.why_not(steps, name)) is not None:
            raise Refusal(409, reason)
        raise Refusal(404, f"{name!r} is no knob; there are {', '.join(there)}")

    def turn(self, name: str, value: Any, by: str | None) -> Sent:
        """Send the control record of a turn.

        Args:
            name: the name of the knob.
            value: its new value, as the pipeline file writes it.
            by: the name that the caller gives; `None`: the token's name is used.

        Raises:
            Refusal: the knob may not have the value.
        """
        turn = Turn(name, value, self.caller.named(by))
        try:
            known.turned(self.described.fields, name, value)
        except ConfigError as error:
            raise Refusal(400, str(error)) from error
        topic = self.described.control_topic
        offset = send(self.broker, topic, turn.written())
        self.sent[self.source.pipeline, name] = offset
        return Sent(topic=topic, partition=0, offset=offset, by=turn.by)

    def unread(self, name: str, turns: Sequence[Mapping[str, Any]]) -> int | None:
        """Return the offset of the last turn of a knob that was sent here, or `None` if the job has read it.

        Args:
            name: the name of the knob.
            turns: the turns that the job has read.
        """
        sent = self.sent.get((self.source.pipeline, name))
        return None if sent is None or any(turn["offset"] >= sent for turn in turns) else sent


Dial = Annotated[_Dial, Depends()]
Name = Annotated[str, Path(description="the knob's name, such as `steps.matched.memory`")]


@router.get("", responses=UNREADABLE)
def knobs(
    source: Source,
    limit: Annotated[int, Query(ge=1, le=1000, description="the most turns; the newest ones count")] = 100,
) -> Knobs:
    """List the pipeline's knobs and their turns, newest first. Before the first job both are empty."""
    described = source.description()
    steps: Steps = {} if described is None else described.fields
    turns = source.turns()
    history = [TurnInfo(**turn) for turn in reversed(turns[-limit:])]
    held = {turn["name"]: turn["value"] for turn in turns if turn["refused"] is None}
    found = [_knob(steps, name, held) for name in known.knobs_of(steps)]
    return Knobs(knobs=found, fields=_FIELDS, history=history)


@router.put("/{name}", status_code=202, responses=REFUSED)
def set_knob(name: Name, to: SetKnob, dial: Dial) -> Sent:
    """Turn a knob by a control record. The value holds from the batch after the one that reads the record."""
    dial.require(name)
    return dial.turn(name, to.value, to.by)


@router.post("/{name}/revert", status_code=202, responses=REFUSED)
def revert_knob(name: Name, to: Revert, source: Source, dial: Dial) -> Sent:
    """Turn a knob back to its value before its last turn, or to its value in the pipeline file."""
    dial.require(name)
    turns = source.turns()
    held = [turn for turn in turns if turn["name"] == name and turn["refused"] is None]
    unread = dial.unread(name, turns)
    if unread is None and not held:
        raise Refusal(409, f"{name} was never turned, so there is nothing to go back to")
    if to.to == "file":
        return dial.turn(name, known.filed(dial.described.fields)[name], to.by)
    if unread is not None:  # the value before it is not known, and nobody means that before an earlier turn
        raise Refusal(
            409,
            f"the job has not read the turn of {name} at offset {unread} yet; undo it after the next batch, "
            "or set a value",
        )
    return dial.turn(name, held[-1]["before"], to.by)


def _knob(steps: Steps, name: str, held: dict[str, Any]) -> Knob:
    filed = known.filed(steps)[name]
    value = held.get(name, filed)
    return Knob(name=name, filed=filed, value=value, turned=name in held, **known.about_knob(steps, name))
