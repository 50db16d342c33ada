"""Punctuations as JSON: there and back, what is refused, and the schema."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from endmark.domain import Domain, PunctuationError
from endmark.punctuation import wire_json
from endmark.punctuation.json_shape import PunctuationShape, schema
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from support.patterns import patterns

ROOT = Path(__file__).parents[3]
DOMAINS = {domain.value: domain for domain in Domain}
HOUR = timedelta(hours=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@settings(deadline=None)
@given(data=st.data())
def test_round_trip(data: st.DataObject) -> None:
    """Every pattern of every type comes back as it was written, and what is written has the shape."""
    optional = {name: patterns(domain) for name, domain in DOMAINS.items()}
    written: dict[str, Pattern] = data.draw(st.fixed_dictionaries({}, optional=optional))
    punctuation = Punctuation.of("s", written, Origin(1, 2))

    record = wire_json.encode(punctuation, DOMAINS)

    assert wire_json.decode(record, "s", DOMAINS, Origin(1, 2)) == punctuation
    PunctuationShape.model_validate_json(record)


@settings(deadline=None)
@given(value=st.text())
def test_any_text(value: str) -> None:
    punctuation = Punctuation.of("s", {"string": Equals(value)})

    assert wire_json.decode(wire_json.encode(punctuation, DOMAINS), "s", DOMAINS) == punctuation


@pytest.mark.parametrize(
    ("name", "pattern", "written"),
    [
        ("long", Equals(42), {"equals": 42}),
        ("long", OneOf(frozenset({3, 1})), {"one_of": [1, 3]}),
        ("double", Between(None, 1.5, high_open=True), {"between": {"to": 1.5, "to_open": True}}),
        ("double", Between(1.5, None), {"between": {"from": 1.5}}),
        ("boolean", Equals(True), {"equals": True}),
        ("string", Equals("*"), {"equals": "*"}),
        ("decimal", Equals(Decimal("12.50")), {"equals": "12.5"}),
        ("decimal", Equals(Decimal("1e3")), {"equals": "1000"}),
        (
            "date",
            Between(date(2026, 1, 1), date(2026, 1, 2)),
            {"between": {"from": "2026-01-01", "to": "2026-01-02"}},
        ),
        ("date", Equals(date(1, 2, 3)), {"equals": "0001-02-03"}),
        ("timestamp", Equals(NOON), {"equals": "2026-01-01T12:00:00.000000Z"}),
        ("timestamp", Equals(NOON.astimezone(timezone(HOUR))), {"equals": "2026-01-01T12:00:00.000000Z"}),
        ("decimal", Equals(Decimal("-0.0")), {"equals": "0"}),
        ("double", Equals(-0.0), {"equals": 0.0}),
        ("long", Nothing(), {"nothing": True}),
        ("long", Between(), {"between": {}}),
    ],
)
def test_spelling(name: str, pattern: Pattern, written: Any) -> None:
    record = wire_json.encode(Punctuation.of("s", {name: pattern}), DOMAINS)

    assert json.loads(record) == {"$punctuation": {name: written}}
    assert wire_json.decode(record, "s", DOMAINS) == Punctuation.of("s", {name: pattern})


@pytest.mark.parametrize(
    ("name", "written", "pattern"),
    [
        ("timestamp", '"2026-01-01T12:00:00Z"', Equals(NOON)),
        ("timestamp", '"2026-01-01T12:00:00.5Z"', Equals(NOON.replace(microsecond=500_000))),
        ("double", "1152921504606847000", Equals(2.0**60)),
        ("double", "-0.0", Equals(0.0)),
        ("decimal", '"-0.10"', Equals(Decimal("-0.1"))),
        ("string", '"\\u002a"', Equals("*")),
    ],
)
def test_other_spellings(name: str, written: str, pattern: Pattern) -> None:
    record = f'{{"$punctuation": {{"{name}": {{"equals": {written}}}}}}}'.encode()

    assert wire_json.decode(record, "s", DOMAINS) == Punctuation.of("s", {name: pattern})


def test_closing_the_whole_stream_is_said_aloud() -> None:
    punctuation = Punctuation.of("s", {"long": Anything()})

    assert json.loads(wire_json.encode(punctuation, {"long": Domain.LONG})) == {
        "$punctuation": {"long": {"anything": True}}
    }
    with pytest.raises(PunctuationError, match="at least 1 item"):
        wire_json.decode(b'{"$punctuation": {}}', "s", DOMAINS)


MALFORMED = [
    ('{"$punctuation": {"long": 42}}', "a pattern has one member"),
    ('{"$punctuation": {"long": {}}}', "a pattern has one member"),
    ('{"$punctuation": {"long": {"equal": 1}}}', "a pattern has one member"),
    ('{"$punctuation": {"long": {"equals": 1, "nothing": true}}}', "a pattern has one member"),
    ('{"$punctuation": {"long": {"equals": null}}}', "equals"),
    ('{"$punctuation": {"long": {"equals": [1]}}}', "equals"),
    ('{"$punctuation": {"long": {"one_of": 1}}}', "one_of"),
    ('{"$punctuation": {"long": {"anything": false}}}', "anything"),
    ('{"$punctuation": {"long": {"anything": 1}}}', "anything"),
    ('{"$punctuation": {"long": {"between": {"from": null}}}}', "left out, not null"),
    ('{"$punctuation": {"long": {"between": {"low": 1}}}}', "between"),
    (
        '{"$punctuation": {"long": {"equals": null}}}',
        r"^\$punctuation\.long\.equals: must be a text, a number, true or false",
    ),
    ('{"$punctuation": {"long": {"between": {"from": {}}}}}', "between.from: must be a text"),
    ('{"$punctuation": {"long": {"between": {"from": 1, "from_open": 1}}}}', "from_open"),
    ('{"$punctuation": {"long": {"between": {"to_open": true}}}}', "to_open with to"),
    ('{"$punctuation": {"long": {"equals": 1}}, "more": 1}', "more"),
    ('{"item_id": 1}', "punctuation"),
    ("[]", "the record"),
]


@pytest.mark.parametrize(("record", "error"), MALFORMED)
def test_wrong_shape(record: str, error: str) -> None:
    with pytest.raises(PunctuationError, match=error):
        wire_json.decode(record.encode(), "s", DOMAINS)
    with pytest.raises(ValidationError):
        PunctuationShape.model_validate_json(record)


@pytest.mark.parametrize(
    ("record", "error"),
    [
        ('{"$punctuation": {"long": {"equals": "1"}}}', "attribute 'long': '1' is no long"),
        ('{"$punctuation": {"long": {"equals": 1.0}}}', "attribute 'long': 1.0 is no long"),
        ('{"$punctuation": {"long": {"equals": true}}}', "True is no long"),
        ('{"$punctuation": {"long": {"equals": 9223372036854775808}}}', "64 bits"),
        ('{"$punctuation": {"boolean": {"equals": 1}}}', "1 is no boolean"),
        ('{"$punctuation": {"double": {"equals": 1e400}}}', "finite numbers"),
        ('{"$punctuation": {"double": {"equals": NaN}}}', "NaN is not JSON"),
        (f'{{"$punctuation": {{"double": {{"equals": {10**400}}}}}}}', "beyond all doubles"),
        (f'{{"$punctuation": {{"double": {{"equals": 1{"0" * 5000}}}}}}}', "limit"),
        ('{"$punctuation": {"decimal": {"equals": 1.5}}}', "1.5 is no decimal such as"),
        ('{"$punctuation": {"decimal": {"equals": "1e3"}}}', "'1e3' is no decimal such as"),
        ('{"$punctuation": {"date": {"equals": "2026-02-30"}}}', "is no date: "),
        ('{"$punctuation": {"date": {"equals": "20260101"}}}', "is no date such as"),
        ('{"$punctuation": {"timestamp": {"equals": "2026-01-01T00:00:00"}}}', "is no timestamp such as"),
        ('{"$punctuation": {"timestamp": {"equals": "2026-01-01T00:00:00+00"}}}', "is no timestamp such"),
        ('{"$punctuation": {"timestamp": {"equals": "0001-01-01T00:00:00+01:00"}}}', "is no timestamp: "),
        ('{"$punctuation": {"string": {"equals": "\\ud800"}}}', "half a surrogate pair"),
        (
            '{"$punctuation": {"colour": {"equals": 1}}}',
            "stream 's' has no attribute 'colour'; it has long",
        ),
        ('{"$punctuation": {"long": {"equals": 1, "equals": 2}}}', "member 'equals' stands twice"),
        ('{"$punctuation"', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_refused(record: str, error: str) -> None:
    with pytest.raises(PunctuationError, match=error):
        wire_json.decode(record.encode(), "s", DOMAINS)


def test_not_utf8() -> None:
    with pytest.raises(PunctuationError, match="byte 0 is not UTF-8"):
        wire_json.decode(b"\xff", "s", DOMAINS)


def test_schema_is_current() -> None:
    """schemas/punctuation.v1.json is what the models say; `make schemas` writes it."""
    kept = json.loads((ROOT / "schemas" / "punctuation.v1.json").read_text())

    assert schema() == kept


def test_schema_refuses_null_ends_and_lone_openness() -> None:
    """What the models check by code stands in the schema too."""
    ends = schema()["$defs"]["Ends"]

    assert ends["dependentRequired"] == {"from_open": ["from"], "to_open": ["to"]}
    assert {"type": "null"} not in ends["properties"]["from"]["anyOf"]
    assert "default" not in ends["properties"]["from"]
