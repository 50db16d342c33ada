"""Parsing of records: what is a row, what is a punctuation, and why the rest is neither."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.punctuation.pattern import Between
from endmark.types import ColumnType
from endmark.wire.json import records as json_records
from endmark.wire.json.records import JsonParser
from endmark.wire.record_spec import RecordSpec

COLUMNS = {
    "id": ColumnType.LONG,
    "price": ColumnType.DOUBLE,
    "name": ColumnType.STRING,
    "sold": ColumnType.BOOLEAN,
    "at": ColumnType.TIMESTAMP,
    "day": ColumnType.DATE,
    "fee": ColumnType.decimal(6, 2),
}
PARSER = JsonParser(RecordSpec(COLUMNS, ("id",)))
GOOD: dict[str, Any] = {
    "id": 1,
    "price": 2.5,
    "name": "a",
    "sold": True,
    "at": "2026-01-01T00:00:00.5Z",
    "day": "2026-01-31",
    "fee": "12.3",
}


def record(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


def values(*records: bytes | None) -> pa.Array:
    return pa.array(records, pa.binary())


BAD = [
    (b"", "empty"),
    (b" \n", "empty"),
    (b"null", "not_an_object"),
    (b"[1]", "not_an_object"),
    (b"{}", "missing_field"),
    (record()[:-1], "malformed"),
    (record() + record(), "malformed"),
    # A bare null between two records kills PyArrow's reader; it must never get there.
    (record() + b"\nnull\n" + record(), "malformed"),
    (b"\xef\xbb\xbf" + record(), "malformed"),
    (b'{"id":' + b"[" * 100_000 + b"}", "malformed"),
    (record(price=float("nan")), "malformed"),
    (record(name="x").replace(b'"x"', b'"\xff"'), "not_utf8"),
    (record(extra=1), "unknown_field"),
    (record(extra=None), "unknown_field"),
    (record(price=None), "missing_field"),
    (record(id="1"), "wrong_type"),
    (record(id=1.0), "wrong_type"),
    (record(id=True), "wrong_type"),
    (record(sold="true"), "wrong_type"),
    (record(at=1767225600), "wrong_type"),
    (record(id=2**63), "bad_value"),
    (record(at="2026-02-30T00:00:00Z"), "bad_value"),
    (record(at="2026-01-01T00:00:00+0200"), "bad_value"),
    (record(at="2026-01-01T00:00:00+18:01"), "bad_value"),
    (record(at="0001-01-01T00:00:00+02:00"), "bad_value"),
    (record(at="9999-12-31T23:59:59-00:01"), "bad_value"),
    (record(at="2026-01-01"), "bad_value"),
    (record().replace(b"2.5", b"1e999"), "bad_value"),
    (record(day="2026-02-30"), "bad_value"),
    (record(day=20000), "wrong_type"),
    (record(fee="12.345"), "bad_value"),
    (record(fee="12345"), "bad_value"),
    (record(fee=12.3), "wrong_type"),
    (record()[:-1] + b', "id": 2}', "duplicate_field"),
    (b'{"$punctuation": {"id": {"equals": "1"}}}', "bad_punctuation"),
    (b'{"$punctuation": {"name": {"equals": 1}}}', "bad_punctuation"),
    (b'{"$punctuation": {"id": {"equals": 9223372036854775808}}}', "bad_punctuation"),
    (b'{"$punctuation": {"id": {"equals": 1}}, "id": 1}', "bad_punctuation"),
]


def test_json_behind_the_id_of_a_schema_says_so() -> None:
    """Serializers of JSON Schema write it. Nothing else would tell why a record that looks right is none."""
    [rejection] = PARSER.parse(values(b"\0\0\0\0\7" + record())).rejections

    assert rejection.error.startswith("not JSON: the id of a schema stands before it")


@pytest.mark.parametrize(("value", "reason"), BAD)
def test_bad_record_is_named_and_kept(value: bytes | None, reason: str) -> None:
    """A bad record between good ones is rejected alone, with its reason and its bytes."""
    parsed = PARSER.parse(values(record(id=7), value, record(id=8)))

    assert parsed.rows.column("id").to_pylist() == [7, 8]
    assert parsed.row_at.tolist() == [0, 2]
    [rejection] = parsed.rejections
    assert (1, reason, value) == (rejection.at, rejection.reason, rejection.value)


NULLABLE = {
    name: kind if name in ("id", "at") else ColumnType.parse(f"{kind}?") for name, kind in COLUMNS.items()
}


@pytest.mark.parametrize("ignoring", [False, True])
def test_a_nullable_column_may_be_null_or_missing(ignoring: bool) -> None:
    """All others may not, and a value that is there must be one of the column."""
    parser = JsonParser(RecordSpec(NULLABLE, ("id",), ignoring=ignoring))
    without = {name: None for name in NULLABLE if name not in ("id", "at")}
    least = {name: GOOD[name] for name in ("id", "at")}
    refused = [record(at=None), record(id=None), record(fee=1), record(day="2026-02-30"), record(price="")]

    parsed = parser.parse(
        values(record(), record(**without), *refused, json.dumps(least).encode(), record(fee=None))
    )

    assert parsed.row_at.tolist() == [0, 1, 7, 8]
    assert parsed.rows.schema.types == [kind.arrow for kind in COLUMNS.values()]
    first, *others = parsed.rows.to_pylist()
    assert None not in first.values()
    kept = {name: first[name] for name in least}
    assert others == [kept | without, kept | without, first | {"fee": None}]
    assert [each.reason for each in parsed.rejections] == [
        "missing_field",
        "missing_field",
        "wrong_type",
        "bad_value",
        "wrong_type",
    ]
    assert parsed.rejections[2].error == """field 'fee' must be decimal(6,2) like "1.50" or null, but is 1"""


def test_other_members_are_left_out_where_they_are_ignored() -> None:
    """Columns stay as strict as they are, and a punctuation has no other members."""
    parser = JsonParser(RecordSpec(COLUMNS, ("id",), ignoring=True))
    deep: Any = 1
    for _ in range(20):
        deep = [{"id": "x", "more": deep}]
    other = record(more=deep, Id="x", i=None, idd={"id": 3})
    twice = record(more=1)[:-1] + b', "more": {"a": 1, "a": 2}, "huge": 1e999, "id\\u0064": 2}'
    bad = [
        (record(more=1)[:-1] + b', "id": 2}', "duplicate_field"),
        (record(more=1)[:-1] + rb', "\u0069d": 2}', "duplicate_field"),
        (record(more=1, id="1"), "wrong_type"),
        (record(more=1, fee=None), "missing_field"),
        (record(more=1)[:-1] + b', "$punctuation": {"id": {"equals": 1}}}', "unknown_field"),
        (b'{"more": 1, "$punctuation": {"id": {"equals": 1}}}', "unknown_field"),
        (b'{"$punctuation": {"id": {"equals": 1}}, "more": 1}', "bad_punctuation"),
        (record(more=1)[:-1] + b', "more": [1, }', "malformed"),
        (record(more=1)[:-1] + b', "more": NaN}', "malformed"),
    ]

    parsed = parser.parse(values(other, twice, *(value for value, _ in bad), record()))

    assert (parsed.row_at.tolist(), parsed.extra) == ([0, 1, 2 + len(bad)], 2)
    assert parsed.rows.to_pylist() == PARSER.parse(values(record())).rows.to_pylist() * 3
    assert [each.reason for each in parsed.rejections] == [reason for _, reason in bad]
    assert parsed.closed_keys.num_rows == 0


def test_ignored_members_of_usual_depth_are_not_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer's new field must not slow down each of its records."""
    monkeypatch.setattr(json_records, "respell", None)
    nested = {"more": {"a": [1, -2.5e3, {"b": "]}", "c": [[], {}]}], "d": None}, "Id": True, "name_": "n"}

    parsed = JsonParser(RecordSpec(COLUMNS, ("id",), ignoring=True)).parse(values(record(**nested), record()))

    assert (parsed.rows.num_rows, parsed.extra) == (2, 1)


def test_row_keeps_its_values() -> None:
    """Every type arrives as it was sent, white space and escapes in JSON notwithstanding."""
    wild = 'é \\ " \u2028 $punctuation {}'
    spaced = json.dumps(GOOD | {"name": wild, "id": -(2**63), "price": -1e-7}, indent=1).encode()
    parsed = PARSER.parse(values(spaced))

    assert parsed.rejections == []
    expected = {
        "id": -(2**63),
        "price": -1e-7,
        "name": wild,
        "sold": True,
        "at": datetime(2026, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC),
        "day": date(2026, 1, 31),
        "fee": Decimal("12.30"),
    }
    assert [expected] == parsed.rows.to_pylist()


def test_punctuations_are_told_from_rows() -> None:
    """Punctuations give the closed values, in place, up to the ends of int64."""
    closing = [
        f'{{ "$punctuation" : {{"id": {{"equals": {n}}}}} }}'.encode() for n in (5, -(2**63), 2**63 - 1)
    ]
    parsed = PARSER.parse(values(record(), *closing, record()))

    assert parsed.closed_keys.column(0).to_pylist() == [5, -(2**63), 2**63 - 1]
    assert parsed.closed_keys_at.tolist() == [1, 2, 3]
    assert parsed.row_at.tolist() == [0, 4]


def test_stream_without_punctuations_takes_none() -> None:
    """A punctuation on a stream that declares none is a dead letter, not a row."""
    parsed = JsonParser(RecordSpec(COLUMNS, ())).parse(values(b'{"$punctuation": {"id": {"equals": 5}}}'))

    assert [rejection.reason for rejection in parsed.rejections] == ["bad_punctuation"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fee": 12.3}, """field 'fee' must be decimal(6,2) like "1.50", but is 12.3"""),
        ({"fee": "1.505"}, """field 'fee' must be decimal(6,2) like "1.50", but is "1.505\""""),
        ({"day": "31.1.2026"}, """field 'day' must be date like "2026-01-31", but is "31.1.2026\""""),
        ({"at": "now"}, """field 'at' must be timestamp like "2026-01-31T00:00:00.000000Z", but is "now\""""),
        ({"id": 2**63}, "field 'id': 9223372036854775808 does not fit into 64 bits"),
        ({"day": "2026-02-30"}, "field 'day': '2026-02-30' is no date: day is out of range"),
        ({"at": "2026-02-30T00:00:00Z"}, "field 'at': '2026-02-30T00:00:00Z' is no timestamp: day is"),
    ],
)
def test_rejection_names_the_field_and_an_example(changes: dict[str, Any], says: str) -> None:
    """Whoever mends the producer reads which field it is, and how its values are spelled."""
    [rejection] = PARSER.parse(values(record(**changes))).rejections

    assert says in rejection.error


def test_punctuation_of_many_columns() -> None:
    """Its values come as columns of the stream's own types; a rejected one is told what it should be."""
    parser = JsonParser(RecordSpec(COLUMNS, ("fee", "day")))
    good = b'{"$punctuation": {"day": {"equals": "2026-01-31"}, "fee": {"equals": "12.3"}}}'
    parsed = parser.parse(values(record(), good, good.replace(b"12.3", b"12.30"), good.replace(b"12.3", b"")))

    assert parsed.closed_keys.to_pylist() == [{"fee": Decimal("12.30"), "day": date(2026, 1, 31)}] * 2
    assert parsed.closed_keys.schema.types == [COLUMNS["fee"].arrow, COLUMNS["day"].arrow]
    assert parsed.closed_keys_at.tolist() == [1, 2]
    [rejection] = parsed.rejections
    assert '{"fee": {"equals": "1.50"}, "day": {"equals": "2026-01-31"}}' in rejection.error


def test_keys_are_named_by_the_key_columns_alone() -> None:
    """Of a stream that is punctuated on others too, those that restrict them are promises; where the key is
    not among them, no punctuation names one."""
    wider = b'{"$punctuation": {"id": {"equals": 1}, "name": {"equals": "a"}}}'
    named = b'{"$punctuation": {"id": {"equals": 1}}}'

    parsed = JsonParser(RecordSpec(COLUMNS, ("name", "id"), "lots", key=("id",))).parse(values(wider, named))
    assert parsed.closed_keys.to_pylist() == [{"id": 1}]
    assert [(at, promise.names()) for at, promise in parsed.promises] == [(0, ("id", "name"))]

    parsed = JsonParser(RecordSpec(COLUMNS, ("name",), "lots", key=("id",))).parse(values(wider, named))
    assert (parsed.closed_keys.num_rows, parsed.promises, len(parsed.rejections)) == (0, [], 2)


def test_punctuations_of_other_shapes() -> None:
    """Patterns that do not name one value come as they were meant; those on other columns are refused."""
    until = b'{"$punctuation": {"id": {"between": {"to": 9, "to_open": true}}, "name": {"anything": true}}}'
    rejected = [
        (
            b'{"$punctuation": {"id": {"equals": 1}, "name": {"equals": "a"}}}',
            "restricts columns of `punctuated_on`, id, alone",
        ),
        (b'{"$punctuation": {"idd": {"equals": 1}}}', "stream 'lots' has no attribute 'idd'"),
        (b'{"$punctuation": {"id": {"between": {"to": "9"}}}}', "attribute 'id': '9' is no long"),
        (b'{"$punctuation": {"id": {"below": 9}}}', "a pattern has one member: anything, equals"),
    ]
    parsed = JsonParser(RecordSpec(COLUMNS, ("id",), "lots")).parse(
        values(until, *(record for record, _ in rejected))
    )

    [(at, promise)] = parsed.promises
    assert (at, promise.patterns) == (0, (("id", Between(high=9, high_open=True)),))
    for rejection, (_, says) in zip(parsed.rejections, rejected, strict=True):
        assert rejection.reason == "bad_punctuation"
        assert says in rejection.error


@pytest.mark.parametrize("punctuated_on", [(), ("id",), ("id", "at")])
def test_heartbeats_need_no_declaration(punctuated_on: tuple[str, ...]) -> None:
    """A promise up to a time is read if it is on the column of heartbeats; what else is on it has to be
    declared."""
    heartbeat = b'{"$punctuation": {"at": {"between": {"to": "2026-01-31T00:00:00Z"}}}}'
    other = heartbeat.replace(b'"to"', b'"from"')
    parser = JsonParser(RecordSpec(COLUMNS, punctuated_on, "lots", heartbeat_on="at"))
    parsed = parser.parse(values(heartbeat, record(), other))

    declared = "at" in punctuated_on
    assert [at for at, _ in parsed.promises] == ([0, 2] if declared else [0])
    assert parsed.promises[0][1].patterns == (("at", Between(high=datetime(2026, 1, 31, tzinfo=UTC))),)
    assert [rejection.at for rejection in parsed.rejections] == ([] if declared else [2])
    if not punctuated_on:
        assert parsed.rejections[0].error == (
            "this stream has no `punctuated_on`, so it takes no punctuations but heartbeats on 'at'"
        )
    none = JsonParser(RecordSpec(COLUMNS, punctuated_on, "lots")).parse(values(heartbeat))
    assert bool(none.promises) == declared


@pytest.mark.parametrize(
    ("end", "fits"),
    [
        ("0", True),
        ("9999.99", True),
        ("9999.990", False),
        ("0.000", False),
        ("0.001", False),
        ("10000", False),
    ],
)
def test_ends_are_values_of_their_column(end: str, fits: bool) -> None:
    """An end with more digits than the column can have is a producer's mistake."""
    value = json.dumps({"$punctuation": {"fee": {"between": {"to": end}}}}).encode()

    assert bool(JsonParser(RecordSpec(COLUMNS, ("fee",))).parse(values(value)).promises) == fits


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.just(record()), st.binary(max_size=60), st.sampled_from([b for b, _ in BAD]))))
def test_no_input_raises_and_none_vanishes(records: list[bytes | None]) -> None:
    """Whatever comes, each record is exactly one of row, punctuation and rejection."""
    parsed = PARSER.parse(values(*records))

    places = [*parsed.row_at.tolist(), *parsed.closed_keys_at.tolist(), *(r.at for r in parsed.rejections)]
    assert list(range(len(records))) == sorted(places)
    assert records.count(record()) == parsed.rows.num_rows


INNER = {"id": ("order", "id"), "name": ("order", "customer", "full-name"), "fee": ("fee",)}
INNER_KINDS = {
    "id": ColumnType.LONG,
    "name": ColumnType.parse("string?"),
    "fee": ColumnType.decimal(6, 2),
}


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (
            b'{"order": {"id": 7, "customer": {"full-name": "Ann"}}, "fee": "1.50"}',
            {"id": 7, "name": "Ann", "fee": Decimal("1.50")},
        ),
        (
            rb' {"fee":"1", "order":{"customer":null ,"i\u0064":7} } ',
            {"id": 7, "name": None, "fee": Decimal(1)},
        ),
        (b'{"fee": "1", "order": {"id": 7, "customer": {}}}', {"id": 7, "name": None, "fee": Decimal(1)}),
    ],
)
@pytest.mark.parametrize("ignoring", [False, True])
def test_members_of_inner_objects_are_columns(value: bytes, row: dict[str, Any], ignoring: bool) -> None:
    """A missing object, or null in its place, is a null of each column in it."""
    parsed = JsonParser(RecordSpec(INNER_KINDS, ("id",), paths=INNER, ignoring=ignoring)).parse(values(value))

    assert (parsed.rows.to_pylist(), parsed.rejections, parsed.extra) == ([row], [], 0)


@pytest.mark.parametrize(
    ("order", "reason", "error"),
    [
        (b"null", "missing_field", "field 'order.id' is missing or null"),
        (b'{"customer": null}', "missing_field", "field 'order.id' is missing or null"),
        (b"[7]", "wrong_type", "field 'order' must be an object or null, but is [7]"),
        (b'{"id": 7, "customer": "Ann"}', "wrong_type", "field 'order.customer' must be an object or null"),
        (b'{"id": "7"}', "wrong_type", "field 'order.id' must be long like 42, but is \"7\""),
        (b'{"id": 9223372036854775808}', "bad_value", "field 'order.id': 9223372036854775808 does not"),
        (b'{"id": 7, "id": 7}', "duplicate_field", "member 'id' stands twice"),
        (b'{"id": 7, "customer": {}, "customer": {}}', "duplicate_field", "member 'customer' stands twice"),
    ],
)
@pytest.mark.parametrize("ignoring", [False, True])
def test_wrong_members_of_inner_objects(order: bytes, reason: str, error: str, ignoring: bool) -> None:
    """The error has the whole path."""
    parser = JsonParser(RecordSpec(INNER_KINDS, (), paths=INNER, ignoring=ignoring))
    [rejection] = parser.parse(values(b'{"fee": "1", "order": %s}' % order)).rejections

    assert rejection.reason == reason
    assert rejection.error.startswith(error)


def test_inner_objects_are_strict_unless_others_are_ignored() -> None:
    """Undeclared members of an inner object may be anything then, as those of a record may."""
    sent = (
        b'{"fee": "1", "order": {"lines": [{"id": [1]}], "id": 7, "lines": 2}}',
        b'{"fee": "1", "order": {"id": 7, "customer": {"id": {"full-name": 1}}}, "x": {}}',
        b'{"fee": "1", "order": {"id": 7, "$punctuation": 1}}',
        b'{"fee": "1", "id": 7, "order": {"id": 8}}',
    )
    ignored = JsonParser(RecordSpec(INNER_KINDS, ("id",), paths=INNER, ignoring=True)).parse(values(*sent))
    strict = JsonParser(RecordSpec(INNER_KINDS, ("id",), paths=INNER)).parse(values(*sent))

    assert [row["id"] for row in ignored.rows.to_pylist()] == [7, 7, 7, 8]
    assert (ignored.extra, ignored.rejections) == (4, [])
    assert [each.reason for each in strict.rejections] == ["duplicate_field", *["unknown_field"] * 3]
    assert strict.rejections[1].error == (
        "field 'order.customer.id' is not declared; declared are order.id, order.customer.full-name, fee"
    )


@pytest.mark.parametrize("ignoring", [False, True])
def test_objects_in_objects_are_read_to_a_usual_depth(ignoring: bool) -> None:
    """The expression of a row doubled with each level, and RE2 refused that of 14."""
    levels = [f"in{number}" for number in range(20)]
    paths = {level: (*levels[:depth], "id") for depth, level in enumerate(levels)}
    inner: dict[str, Any] = {"id": 19}
    for depth in reversed(range(19)):
        inner = (
            {"id": depth, levels[depth]: inner, "also": [7]}
            if depth % 2
            else {levels[depth]: inner, "id": depth}
        )
    parser = JsonParser(
        RecordSpec(dict.fromkeys(levels, ColumnType.LONG), (), paths=paths, ignoring=ignoring)
    )
    text = json.dumps(inner)
    parsed = parser.parse(values((text if ignoring else text.replace(', "also": [7]', "")).encode()))

    assert parsed.rows.to_pylist() == [{level: depth for depth, level in enumerate(levels)}]


@pytest.mark.parametrize("ignoring", [False, True])
@pytest.mark.parametrize("order", list(itertools.permutations(["id", "deep", "fee"])))
def test_commas_stand_between_members_alone(order: tuple[str, ...], ignoring: bool) -> None:
    """Also beside an object that is longer than the other members, wherever it stands."""
    paths = {"id": ("id",), "name": ("deep", "name"), "at": ("deep", "at"), "fee": ("fee",)}
    parser = JsonParser(
        RecordSpec({name: COLUMNS[name] for name in paths}, (), paths=paths, ignoring=ignoring)
    )
    members = {
        "id": '"id": 1',
        "deep": '"deep": {"name": "a", "at": "2026-01-01T00:00:00Z"}',
        "fee": '"fee": "1.00"',
    }
    first, second, third = (members[name] for name in order)
    good = f"{first}, {second}, {third}"
    spoilt = [
        f"{good}, ",
        f", {good}",
        f"{first} {second}, {third}",
        f"{first}, , {second}, {third}",
        f"{first}, {second} {third}",
        f"{first}, {second}, , {third}",
    ]
    sent = ["{" + each + "}" for each in [good, *spoilt, f"{good}, {members['deep']}"]]
    parsed = parser.parse(values(*(text.encode() for text in sent)))

    assert parsed.row_at.tolist() == [0]
    assert [each.reason for each in parsed.rejections] == ["malformed"] * 6 + ["duplicate_field"]


def test_a_punctuation_names_a_column_wherever_rows_have_it() -> None:
    parser = JsonParser(
        RecordSpec(INNER_KINDS | {"tenant": ColumnType.STRING}, ("id", "tenant"), paths=INNER, key=("id",))
    )
    named = b'{"$punctuation": {"id": {"equals": 7}}}'
    wider = b'{"$punctuation": {"tenant": {"equals": "north"}}}'
    by_place = b'{"$punctuation": {"order": {"id": {"equals": 7}}}}'
    parsed = parser.parse(values(named, wider, by_place))

    assert parsed.closed_keys.to_pylist() == [{"id": 7}]
    assert [at for at, _ in parsed.promises] == [1]
    assert [each.reason for each in parsed.rejections] == ["bad_punctuation"]


def test_the_mark_of_a_deleted_row_is_never_ignored() -> None:
    """A flattened change of Debezium would else be a row like others, after the row was deleted."""
    sent = values(record(), record(__deleted="true"), record(more={"__deleted": "true"}))
    strict = JsonParser(RecordSpec(COLUMNS, ("id",), ignoring=True)).parse(sent)
    kinds = COLUMNS | {"deleted": ColumnType.parse("string?")}
    paths = {name: (name,) for name in COLUMNS} | {"deleted": ("__deleted",)}
    declared = JsonParser(RecordSpec(kinds, ("id",), ignoring=True, paths=paths)).parse(sent)

    assert strict.row_at.tolist() == [0, 2]
    [rejection] = strict.rejections
    assert (rejection.at, rejection.reason) == (1, "unknown_field")
    assert "'__deleted' says whether a row was deleted, so it is never ignored; " in rejection.error
    assert [row["deleted"] for row in declared.rows.to_pylist()] == [None, "true", None]
