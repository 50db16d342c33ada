"""Control records: turns, questions and pulses on the control topic of a job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.wire.rejection import read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.punctuation.scalars import Scalar

PULSE = b'{"pulse": {}}'
BAD_CONTROL = "bad_control"
NAME_LENGTH = 200  # letters of a person's name, and of a knob's
WHY_LENGTH = 500
_FORMS = (
    f'{PULSE.decode()}, {{"set": {{"lookup.strategy": "hybrid"}}, "by": "Ann"}} or '
    '{"ask": {"order_id": 42}, "by": "Ann"}'
)


class ControlError(Exception):
    """A record of the control topic is no control record. `reason` is the reason of its dead letter."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason


@dataclass(frozen=True)
class Turn:
    """A turn of a knob.

    Args:
        name: the name of the knob.
        value: the new value, as the pipeline file spells it.
        by: the person who turns the knob.
        why: the reason that this person gives; `None` for no reason.
    """

    name: str
    value: Any
    by: str
    why: str | None = None

    def written(self) -> bytes:
        """Return the control record of the turn."""
        record = {"set": {self.name: self.value}, "by": self.by}
        record |= {} if self.why is None else {"why": self.why}
        return json.dumps(record, ensure_ascii=False).encode()


@dataclass(frozen=True)
class Question:
    """A question of what keeps one key open.

    Args:
        key: the value of each column of the key, by name, spelled as in data records.
        by: the person who asks.
    """

    key: Mapping[str, Scalar]
    by: str

    def written(self) -> bytes:
        """Return the control record of the question."""
        return json.dumps({"ask": dict(self.key), "by": self.by}, ensure_ascii=False).encode()


def read_control(value: bytes | None) -> Turn | Question | None:
    """Read the turn or the question in a control record; `None` for a pulse.

    Whether the knob exists and takes the value, and whether there is such a key, is not checked here.

    Raises:
        ControlError: the record is neither a turn nor a question nor a pulse.
    """
    record = read_object(value or b"")
    if isinstance(record, tuple):
        raise ControlError(*record)
    if record == {"pulse": {}}:
        return None
    by, setting = record.get("by"), record.get("set")
    if record.keys() == {"ask", "by"} and isinstance(record["ask"], dict):
        _require_signed(by)
        return Question(record["ask"], str(by))
    why = record.pop("why", None)
    if record.keys() != {"set", "by"} or not isinstance(setting, dict) or len(setting) != 1:
        shown = ", ".join(record)[:80]
        raise ControlError(BAD_CONTROL, f"a control record is {_FORMS}, this has the members {shown}")
    _require_signed(by)
    if why is not None and not (isinstance(why, str) and why.isprintable() and len(why) <= WHY_LENGTH):
        raise ControlError(BAD_CONTROL, f"`why` is up to {WHY_LENGTH} letters that can be printed")
    [(name, to)] = setting.items()
    if not (name.isprintable() and len(name) <= NAME_LENGTH):
        raise ControlError(BAD_CONTROL, f"{name!r} is no knob")
    if isinstance(to, dict | list):
        raise ControlError(BAD_CONTROL, f"{name}: a knob is set to a text, a number, true, false or null")
    return Turn(name, to, str(by), why)


def is_name(by: Any) -> bool:
    """Return whether a control record may name this person as its sender."""
    return isinstance(by, str) and by.isprintable() and 0 < len(by) <= NAME_LENGTH


def _require_signed(by: Any) -> None:
    if not is_name(by):
        raise ControlError(
            BAD_CONTROL, f"`by` names whoever sends the record, in up to {NAME_LENGTH} letters"
        )
