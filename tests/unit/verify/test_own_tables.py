"""`verify` has tables of its own, since it shares no code with the engine: each name has its entry there.

`tests/unit/control/tuning/test_changes.py` holds its table of knobs.
"""

from __future__ import annotations

from endmark.operators.stream_join.presets import Preset
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.measures import FUNCTIONS
from endmark.verify.formats import registry as formats
from endmark.verify.groups import measures
from endmark.verify.promises import final_keys


def test_every_format_is_read() -> None:
    assert formats.FORMATS.keys() == FORMATS.keys()


def test_every_function_of_measures_is_recomputed() -> None:
    assert measures.FUNCTIONS.keys() == FUNCTIONS.keys()


def test_every_preset_is_known() -> None:
    assert final_keys.ANNOUNCES.keys() == set(Preset)
