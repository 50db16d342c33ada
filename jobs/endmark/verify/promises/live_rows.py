"""Finds the rows of an input that are in state when all records have been read."""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.pipeline.stage import Stage
from endmark.verify.join.sides import join_sides, microseconds, stream_names
from endmark.verify.judge.result_steps import joined_results
from endmark.verify.promises.final_keys import waiting_rows
from endmark.verify.promises.idle_partitions import is_uncertain
from endmark.verify.session import fill, text

# A final key has no result to come, so its rows are of no use. A semi join has put out the spent rows.
_LIVE = """
SELECT r.* FROM $waiting r
WHERE NOT EXISTS (FROM $final p WHERE $promised) AND NOT $spent
"""

_SPENT = 'EXISTS (FROM $results e WHERE e.$row = r."#rowid")'

# These rows live if the other streams have closed no keys.
_LIVE_OF_OPEN_KEYS = 'SELECT r.*, r.rowid AS "#rowid" FROM $side r WHERE NOT ($passed)'

_PASSED = """
coalesce(epoch_us(r.$time) + $window < (SELECT $reached FROM progress WHERE stream = $other), false)
"""

_OLDEST = "SELECT min(epoch_us(s.$time)) FROM $side s WHERE s.rowid IN ($kept)"
_KEPT = 'SELECT "#rowid" FROM ($rows) r WHERE NOT $spent'
_ALL_ROWS = 'SELECT r.*, r.rowid AS "#rowid" FROM $side r'

# Rows leave state never, with their window, or as soon as they are no longer live. Under each preset, a row
# leaves once a semi join has put it out.
_LEAVE = {"shj": "never", "xjoin": "never", "wjoin": "by window"}


def forgets(pipeline: Pipeline) -> bool:
    """Return whether some stream forgets closed keys."""
    return any(stream.forget_keys_after is not None for stream in pipeline.streams.values())


def live_rows(stage: Stage, stream: str, reached: str) -> str:
    """Return the SQL of the live rows of an input, as `waiting_rows` has them.

    Args:
        stage: the stage.
        stream: the stream.
        reached: the bound of the other streams' progress, `lowest` or `highest`, that decides which rows
            live.
    """
    known = stream_names(stage.pipeline, stream)
    return fill(
        _LIVE,
        waiting=waiting_rows(stream, reached),
        final="final" if reached == "lowest" else "possibly_final",
        spent=spent(stage, stream, reached),
        **known,
    )


def spent(stage: Stage, stream: str, reached: str) -> str:
    """Return the SQL of whether a semi join has put out a row, named `r`, of its left input.

    Args:
        stage: the stage.
        stream: the input.
        reached: if it is `highest`, a row that may have been put out counts, too.
    """
    if stage.shown_inputs == stage.inputs or stream not in stage.shown_inputs:
        return "false"
    known = stream_names(stage.pipeline, stream)
    kinds = ["expected"] if reached == "lowest" else ["expected", "uncertain"]
    found = (fill(_SPENT, results=joined_results(stage, kind), **known) for kind in kinds)
    return f"({' OR '.join(found)})"


def rows_of_open_keys(stage: Stage, stream: str, reached: str) -> str:
    """Return the SQL of the rows, and their `#rowid`, that live if all closed keys were forgotten.

    Args:
        stage: the stage.
        stream: the stream.
        reached: the bound of the other streams' progress, `lowest` or `highest`.
    """
    known = stream_names(stage.pipeline, stream)
    (side,) = (each for each in join_sides(stage) if each.stream == stream)
    window = "NULL" if side.window is None else str(microseconds(side.window))
    passed = [
        fill(_PASSED, window=window, other=text(other), reached=reached, time=known["time"])
        for other in side.others
    ]
    return fill(_LIVE_OF_OPEN_KEYS, passed=" AND ".join(passed), **known)


def oldest_to_come(stage: Stage, given: str) -> tuple[str, str]:
    """Return the SQL of the event time (µs) of an input's oldest row in state, by two bounds.

    The second one counts no row that may have left. Each is NULL without such a row.

    Args:
        stage: the stage.
        given: the input.
    """
    known = stream_names(stage.pipeline, given)
    highest = "highest" if is_uncertain(stage) else "lowest"
    least = fill(_OLDEST, kept=_kept_rows(stage, given, "lowest"), **known)
    return least, fill(_OLDEST, kept=_kept_rows(stage, given, highest, sure=True), **known)


def _kept_rows(stage: Stage, given: str, reached: str, *, sure: bool = False) -> str:
    """The SQL of the `rowid` of all rows of an input that are in state.

    Args:
        stage: the stage.
        given: the input.
        reached: the bound of the progress of the other inputs, `lowest` or `highest`.
        sure: whether only those rows count that stay even if no closed key is forgotten.
    """
    leave = _LEAVE.get("auto" if stage.join is None else stage.join.preset, "soon")
    if leave == "never":
        rows = fill(_ALL_ROWS, **stream_names(stage.pipeline, given))
    elif leave == "by window" or (forgets(stage.pipeline) and not sure):
        rows = rows_of_open_keys(stage, given, reached)
    else:
        rows = live_rows(stage, given, reached)
    return fill(_KEPT, rows=rows, spent=spent(stage, given, reached))
