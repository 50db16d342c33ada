"""The JSON Schema of a pipeline file: it is what the models say, and accepts what they accept."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from endmark.pipeline import Pipeline
from endmark.pipeline.fields import Cadence, Duration, Pause, Size
from endmark.pipeline.text import PipelineText
from endmark.pipelines import AUCTION
from endmark.types import ColumnType

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "schemas" / "pipeline.v1.json").read_text())
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)
EXAMPLES = sorted(AUCTION.parent.glob("*.yaml"))
DOCUMENT: dict[str, Any] = PipelineText(AUCTION).document
MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
BYTES = {"kB": 10**3, "MB": 10**6, "GB": 10**9}


def test_schema_is_current() -> None:
    """schemas/pipeline.v1.json is what the models say; `make schemas` writes it."""
    assert Pipeline.model_json_schema() == SCHEMA


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_valid(example: Path) -> None:
    assert len(EXAMPLES) == 5
    assert VALIDATOR.is_valid(PipelineText(example).document)


@pytest.mark.parametrize(
    ("part", "field", "good", "bad"),
    [
        ("batch", "every", "1d", "999999999999d"),
        ("batch", "every", "10ms", "0.01ms"),
        ("batch", "every", "1.0ms", "10d"),
    ],
)
def test_a_text_that_no_pipeline_may_have_is_invalid(part: str, field: str, good: str, bad: str) -> None:
    def document(value: str) -> dict[str, Any]:
        return DOCUMENT | {part: {**DOCUMENT.get(part, {}), field: value}}

    assert VALIDATOR.is_valid(document(good))
    assert not VALIDATOR.is_valid(document(bad))


def test_a_size_that_no_step_may_have_is_invalid() -> None:
    document = json.loads(json.dumps(DOCUMENT))
    document["steps"]["matched"]["memory"] = "1000000GB"
    assert VALIDATOR.is_valid(document)
    document["steps"]["matched"]["memory"] = "999999999999999999GB"
    assert not VALIDATOR.is_valid(document)


@pytest.mark.parametrize(
    ("kind", "valid"),
    [("long?", True), ("decimal( 18 , 2 )?", True), ("long??", False), ("?", False), ("long ?", False)],
)
def test_a_nullable_type_is_spelled_in_one_way(kind: str, valid: bool) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    document["streams"]["bids"]["columns"]["price"] = kind

    assert VALIDATOR.is_valid(document) == valid
    try:
        assert str(ColumnType.parse(kind)) == kind.replace(" ", "")
    except ValueError:
        assert not valid


@st.composite
def written(draw: st.DrawFn, units: dict[str, int], most: int) -> str:
    """A whole number of the smallest unit up to `most`, in any unit, with zeros and blanks around it."""
    unit = draw(st.sampled_from(sorted(units)))
    value = Fraction(draw(st.one_of(st.integers(0, most), st.just(most))), units[unit])
    decimals = draw(st.integers(0, 9))
    number = f"{round(value * 10**decimals):0{decimals + 1}}"
    whole, fraction = (number[:-decimals], f".{number[-decimals:]}") if decimals else (number, "")
    blank = st.sampled_from(["", " ", "\t"])
    return f"{draw(blank)}{whole:0>{draw(st.integers(1, 18))}}{fraction}{draw(blank)}{unit}{draw(blank)}"


@pytest.mark.parametrize(
    ("kind", "units", "most"),
    [
        (Duration, MILLISECONDS, 36_500 * 86_400_000),
        (Pause, MILLISECONDS, 36_500 * 86_400_000),
        (Cadence, MILLISECONDS, 86_400_000),
        (Size, BYTES, 10**15),
    ],
    ids=["duration", "pause", "cadence", "size"],
)
def test_a_text_that_a_pipeline_may_have_is_valid(kind: Any, units: dict[str, int], most: int) -> None:
    adapter = TypeAdapter(kind)
    validator = jsonschema_rs.validator_for(adapter.json_schema())

    @given(written(units, most))
    def require_valid(text: str) -> None:
        try:
            adapter.validate_python(text)
        except ValidationError:  # such as a fraction of a byte
            return
        assert validator.is_valid(text)

    require_valid()
