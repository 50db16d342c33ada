"""Finds the final keys, of which no result can come any more, and the rows that wait for others.

A side is shut for a row of another side once it has closed the row's key or its progress has left the row's
window. A row waits until all other sides are shut for it. A key is final if all sides have closed it, or if a
side that has closed it has no row of it that waits.
"""

from __future__ import annotations

from endmark.pipeline.stage import Stage
from endmark.verify.join.sides import Side, join_sides, key_column, microseconds, stream_names
from endmark.verify.promises.closed_keys import wider_columns
from endmark.verify.session import Session, fill, name, names, text

# A preset announces a key never, once all streams have closed it, or once any stream has.
ANNOUNCES = {
    "shj": "never",
    "xjoin": "never",
    "wjoin": "never",
    "pjoin": "closed by all",
    "mjoin": "closed by all",
    "pwjoin": "closed by any",
    "auto": "closed by any",
}

# If progress or the window is NULL (a silent partition, a window without end), the row has not left its
# window. A row at exactly progress may still come, so a row leaves its window only beyond the bound.
_SHUT = """
(EXISTS (FROM $other_closed p WHERE $promised)
    OR coalesce(epoch_us(r.$time) + $window < (SELECT $reached FROM progress WHERE stream = $other), false))
"""

_WAITING = """
CREATE TABLE $waiting AS SELECT r.rowid AS "#rowid", $columns FROM $side r WHERE $sure AND NOT ($shut)
"""

_KEYS = "SELECT $key FROM $closed"

_FINAL_WITHOUT_ROWS = """
INSERT INTO $final
SELECT $key FROM (SELECT DISTINCT $key FROM $closed) ANTI JOIN (SELECT $named_key FROM $waiting) USING ($key)
"""


def announces(stage: Stage) -> str:
    """Return when keys are announced. A stream without a join announces what it closes."""
    return "closed by any" if stage.join is None else ANNOUNCES[stage.join.preset]


def waiting_rows(stream: str, reached: str) -> str:
    """Return the table of the rows of a stream that wait, by a bound of progress, `lowest` or `highest`."""
    return name(f"waiting_{stream}_{reached}")


def find_final(session: Session, stage: Stage, final: str, reached: str) -> None:
    """Add the final keys of a stage's join to a table, and make the tables `waiting_rows`.

    A later row without a partner is a result of its key if its side is preserved. So no key is final then
    before that side has closed it. Keys without results are final, too. If the preset announces no key, none
    is final.

    Args:
        session: the session.
        stage: the stage.
        final: the table of keys.
        reached: the bound of progress that decides which rows wait, `lowest` or `highest`.
    """
    key = names([key_column(column) for column in stage.key])
    by_side = [fill(_KEYS, key=key, closed=closed_keys(stage, given, reached)) for given in stage.inputs]
    announced = announces(stage)
    if announced != "never":
        session.run("INSERT INTO $final $by_all", final=final, by_all=" INTERSECT ".join(by_side))
    sides = {side.stream: side for side in join_sides(stage)}
    for side in sides.values():
        _find_waiting(session, stage, side, reached)
        if announced == "closed by any" and not any(sides[each].preserved for each in side.others):
            session.run(
                _FINAL_WITHOUT_ROWS,
                final=final,
                waiting=waiting_rows(side.stream, reached),
                **_names(stage, side.stream, reached),
            )


def closed_keys(stage: Stage, given: str, reached: str) -> str:
    """Return the table of the keys that an input has closed, or may have closed if `reached` is `highest`."""
    perhaps = "possibly_" if reached == "highest" and given == stage.derived else ""
    return name(f"{perhaps}closed_{given}")


def _names(stage: Stage, given: str, reached: str) -> dict[str, str]:
    return stream_names(stage.pipeline, given) | {"closed": closed_keys(stage, given, reached)}


def _find_waiting(session: Session, stage: Stage, side: Side, reached: str) -> None:
    known, window = stream_names(stage.pipeline, side.stream), microseconds(side.window)
    shut = [
        fill(
            _SHUT,
            other_closed=closed_keys(stage, other, reached),
            window="NULL" if window is None else str(window),
            reached=reached,
            other=text(other),
            **known,
        )
        for other in side.others
    ]
    columns = dict.fromkeys(stage.key_columns(side.stream))
    if side.stream == stage.derived:
        columns |= dict.fromkeys(stage.promises.beside_key)
    else:
        restricted = wider_columns(stage.pipeline.inputs[side.stream], stage.key)
        columns |= dict.fromkeys(f"{side.stream}_{column}" for column in restricted)
    session.run(
        _WAITING,
        waiting=waiting_rows(side.stream, reached),
        columns=names(list(columns)),
        sure='"#sure"' if side.stream == stage.derived and reached == "highest" else "true",
        shut=" AND ".join(shut),
        **known,
    )
