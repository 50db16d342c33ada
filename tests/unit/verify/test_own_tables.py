"""`verify` has tables of its own, since it shares no code with the engine: each name has its entry there."""

from __future__ import annotations

from endmark.control.dials import KNOBS
from endmark.operators.stream_join.presets import Preset
from endmark.pipeline import Batch, EventTime, Join, Lookup
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.measures import FUNCTIONS
from endmark.pipeline.steps import Cache
from endmark.verify import announced, control, formats, measures


def test_every_format_is_read() -> None:
    assert formats.FORMATS.keys() == FORMATS.keys()


def test_every_function_of_measures_is_recomputed() -> None:
    assert measures.FUNCTIONS.keys() == FUNCTIONS.keys()


def test_every_preset_is_known() -> None:
    assert announced.ANNOUNCES.keys() == set(Preset)


def test_every_knob_is_known() -> None:
    steps = {
        Lookup: "lookup",
        Cache: "lookup.cache",
        Join: "join",
        Batch: "batch",
        EventTime: "streams.*.event_time",
    }
    known = {f"{steps[part]}.{field}" for part, fields in control.KNOBS.items() for field in fields}

    assert known == KNOBS.keys()
