"""Random turns of a pipeline's knobs, as records of its control topic."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from endmark.control.tuning.knobs import knobs_of, steps_of
from endmark.pipeline import Pipeline
from endmark.wire.control import Turn
from support.verify_world import Record

# By the last part of their names: as a file spells them, and what they mean.
VALUES: dict[str, list[tuple[Any, Any]]] = {
    "strategy": [(name, name) for name in ("auto", "hybrid", "mesh", "batched", "scan")],
    "page_rows": [(1, 1), (3, 3)],
    "time_per_batch": [("0s", 0.0), (None, None), ("1m", 60.0)],
    "memory": [(1, 1), ("1MB", 1_000_000)],
    "lifetime": [("1ms", 0.001), ("5m", 300.0)],
    "absent_lifetime": [("0s", 0.0), (9, 9.0)],
    "purge_every": [(1, 1), (3, 3)],
    "idle": [("1s", 1.0), ("2s", 2.0), (30, 30.0)],
    "records": [(7, 7)],
    "every": [("2s", 2.0)],
}
NONE = [
    ("steps.matched.type", "semi"),
    ("steps.known.lookup.strategy", "sacn"),
    ("steps.matched.memory", 0),
    ("join", True),
]


@st.composite
def turns(draw: st.DrawFn, pipeline: Pipeline) -> Record:
    """A turn of a knob, by a value that the file may have no use for; sometimes of none."""
    name, value = draw(
        st.one_of(
            st.sampled_from(knobs_of(steps_of(pipeline))).flatmap(
                lambda name: st.tuples(
                    st.just(name), st.sampled_from([to for to, _ in VALUES[name.rpartition(".")[2]]])
                )
            ),
            st.sampled_from(NONE),
        )
    )
    return Record(pipeline.control_topic, 0, Turn(name, value, "Ann").written())


@st.composite
def with_turns(draw: st.DrawFn, pipeline: Pipeline, records: list[Record], least: int = 0) -> list[Record]:
    """Records with turns among them, `least` or more."""
    found = list(records)
    for turn in draw(st.lists(turns(pipeline), min_size=least, max_size=12)):
        found.insert(draw(st.integers(0, len(found))), turn)
    return found
