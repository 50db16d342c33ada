"""Control records: what the job is told by the control topic. There is one so far, the pulse."""

from __future__ import annotations

from endmark.formats.rejection import read_object

PULSE = b'{"pulse": {}}'
BAD_CONTROL = "bad_control"


def explain_control(value: bytes | None) -> tuple[str, str] | None:
    """Reason and error of a record that is no control record; `None` for one that is."""
    record = read_object(value or b"")
    if isinstance(record, tuple):
        return record
    if record == {"pulse": {}}:
        return None
    return BAD_CONTROL, f"a control record is {PULSE.decode()}, this has the members {', '.join(record)[:80]}"
