"""A drafted file is valid whatever was sampled, and reads the sampled rows and punctuations."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from xml.sax.saxutils import escape

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.draft import draft as drafting
from endmark.draft.draft import draft
from endmark.draft.relations import DraftRelation
from endmark.draft.samples import Record, Sample
from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.pipeline.formats import FORMATS
from endmark.types import ColumnType

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = st.integers(0, 10**9).map(lambda seconds: f"{START + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}")
PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
TEXTS = PLAIN.map(str.strip).filter(bool)
# Values of one column; JSON has objects and lists, too, which no column holds.
FLAT = [
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6),
    st.booleans(),
    TEXTS,
    TIMES,
    st.dates().map(lambda day: day.isoformat()),
    st.integers(10**12, 3 * 10**12),  # some are milliseconds of plausible years, and some are not
    st.integers(10**15, 2 * 10**15),
    st.decimals(-(10**8), 10**8, places=3).map(str),
]
NESTED = [st.lists(st.integers(), max_size=2), st.dictionaries(PLAIN, st.integers(), max_size=2), st.none()]
MIXED = [st.one_of(FLAT)]
COLUMNS = st.sampled_from(["total", "Total", "note", "at_2", "null", "true", "a", "a_b", "customer_id", "on"])
MEMBERS = st.one_of(
    COLUMNS, st.text(max_size=5), st.sampled_from(["kafka_offset", "x y", "ä", "1st", '"', "#"])
)
TOPICS = st.sampled_from(
    ["orders", "shop.orders", "a", "a_b", "null", "1", "-", "x.", "Orders", "a-b", "2.5"]
)


@dataclass(frozen=True)
class Sampled:
    """The records of a topic, and what they were made of."""

    format: str
    sample: Sample


def written(format_: str, row: dict[str, Any]) -> bytes:
    if format_ == "json":
        return json.dumps(row).encode()
    if format_ == "debezium":
        return json.dumps({"before": None, "after": row, "source": {}, "op": "c"}).encode()
    texts = {
        name: "" if value is None else value if isinstance(value, str) else json.dumps(value)
        for name, value in row.items()
    }
    return f"<r>{''.join(f'<{name}>{escape(text)}</{name}>' for name, text in texts.items())}</r>".encode()


def promise(format_: str, key: int) -> bytes:
    if format_ == "json":
        return json.dumps({"$punctuation": {"order_id": {"equals": key}}}).encode()
    if format_ == "debezium":
        before = {"order_id": key}
        return json.dumps({"before": before, "after": None, "source": {}, "op": "d"}).encode()
    return f"<punct:record><order_id>{key}</order_id></punct:record>".encode()


@st.composite
def sampled(draw: st.DrawFn, topic: str) -> Sampled:
    """Rows with a key, a time and any other members, some of which are missing or null."""
    format_ = draw(st.sampled_from(["json", "xml", "debezium"]))
    names = COLUMNS if format_ == "xml" else MEMBERS
    kinds = FLAT if format_ == "xml" else [*FLAT, *NESTED, *MIXED]
    others = draw(st.dictionaries(names, st.sampled_from(kinds), max_size=5))
    full = {"order_id": st.integers(0, 5), "at": TIMES, **others}
    rows = draw(st.lists(st.fixed_dictionaries(full), min_size=1, max_size=8))
    gone = draw(st.sets(st.sampled_from([*others, ""])))
    for row in rows[1:]:
        for name in gone & set(others):
            match draw(st.sampled_from(["there", "null", "missing"])):
                case "null":
                    row[name] = None
                case "missing":
                    del row[name]
    records = [written(format_, row) for row in rows]
    records += [promise(format_, key) for key in draw(st.lists(st.integers(0, 5), max_size=2))]
    key = b'{"order_id": 1}' if format_ == "debezium" else None
    return Sampled(format_, Sample(topic, [Record(value, key) for value in records]))


SAMPLES = st.lists(TOPICS, min_size=1, max_size=3, unique=True).flatmap(
    lambda topics: st.tuples(*map(sampled, topics))
)


def loaded(text: str) -> Pipeline:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "drafted.yaml")
        file.write_text(text, encoding="utf-8")
        return load(file, {})


KINDS = st.sampled_from([ColumnType.LONG, ColumnType.STRING, ColumnType.DOUBLE, ColumnType.decimal(10, 2)])
NAMES = st.sampled_from(["customer_id", "order_id", "id", "a", "a_b", "country", "null", "Id"])


@st.composite
def relation(draw: st.DrawFn, table: str) -> DraftRelation:
    columns = draw(st.dictionaries(NAMES, KINDS, min_size=1, max_size=5))
    columns = {name: kind for name, kind in columns.items() if name != "Id" or "id" not in columns}
    able = [name for name, kind in columns.items() if kind != ColumnType.DOUBLE]
    key = draw(st.lists(st.sampled_from(able), min_size=1, max_size=2, unique=True)) if able else []
    return DraftRelation(table, table, tuple(key), columns, {})


TABLES = st.lists(
    st.sampled_from(["customers", "orders", "a", "countries", "results", "true"]), max_size=4, unique=True
)
RELATIONS = TABLES.flatmap(lambda tables: st.tuples(*map(relation, tables)))


@settings(deadline=None)
@given(SAMPLES, RELATIONS)
def test_a_draft_is_valid_and_reads_its_sample(
    found: tuple[Sampled, ...], tables: tuple[DraftRelation, ...]
) -> None:
    """It looks up some of any master tables, and names all others that were asked for."""
    there = [each for each in tables if each.key]
    with patch.object(drafting, "relations_at", return_value=there):
        names = [each.table for each in there]
        drafted = draft("any name", [each.sample for each in found], "sqlite:///r.db", names)
    asked = {lookup.relation.table for lookup in drafted.steps.lookups}
    assert {*asked, *(each.table for each in drafted.steps.unused)} == set(names)
    spec = loaded(drafted.text)
    for stream, each in zip(drafted.streams, found, strict=True):
        declared = spec.streams[stream.name]
        assert (declared.topic, declared.format) == (each.sample.topic, each.format)
        parser = FORMATS[declared.format].parser(declared, stream.name, ("order_id",), (), None)
        values = pa.array([record.value for record in each.sample.records], pa.binary())
        do_not_fit = any("do not fit" in note for note in stream.notes.values())
        odd = {"wrong_type", "bad_value"} if do_not_fit else set()
        assert [found for found in parser.parse(values).rejections if found.reason not in odd] == []


def of(*rows: dict[str, Any], topic: str = "orders") -> Sample:
    return Sample(topic, [Record(json.dumps({"at": "2026-01-01T00:00:00Z", **row}).encode()) for row in rows])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "long"),
        ([1, 2.5], "double"),
        ([2**63], "double"),
        ([True], "boolean"),
        (["2026-01-31"], "date"),
        (["2026-02-30"], "string"),
        (["2026-01-31T12:00:00.5Z"], "timestamp"),
        (["2026-01-31T12:00:00Z", "soon"], "string"),
        (["12.50", "3"], "decimal(18,2)"),
        (["12345"], "string"),
        (["0012.5"], "string"),
        (["1" * 30 + ".5"], "decimal(38,1)"),
        (["a", None], "string?"),
        ([1.5] * 9 + ["n/a"], "double"),
        (["12.50"] * 9 + [12.5], "decimal(18,2)"),
        (["12.50"] * 9 + ["n/a"], "string"),
        ([1767225600123, 1767225600124], "timestamp(ms)"),
        ([1767225600123, None], "timestamp(ms)?"),
        ([1767225600123457], "timestamp(us)"),
        ([1767225600123, 1767225600123457], "long"),
        ([1767225600], "long"),
        ([4006381333931], "long"),  # a barcode, which would be of the year 2096
    ],
)
def test_types(values: list[Any], kind: str) -> None:
    drafted = draft("p", [of(*({"v": value} for value in values))])
    assert drafted.streams[0].columns["v"] == ColumnType.parse(kind)


def test_what_cannot_be_a_column_is_named() -> None:
    rows: tuple[dict[str, Any], ...] = (
        {"items": [1], "none": None, "mixed": 1, "a.b": 1, "rest": {}},
        {"mixed": "x"},
    )
    drafted = draft("p", [of(*rows)])
    assert list(drafted.streams[0].columns) == ["at"]
    for said in (
        "items is left out: a list, or an object that is empty or too deep",
        "none is left out: always null",
        '"a.b" is left out: no name',
        "rest is left out: a list, or an object that is empty or too deep",
    ):
        assert said in drafted.streams[0].notes["extra"]


def test_members_of_inner_objects_are_columns_by_their_paths() -> None:
    """So are members whose name no column may have. A null in place of an object is null in its members."""
    rows = [
        {
            "@id": 1,
            "order": {"id": 7, "customer": {"id": 5, "city": "Ulm"}},
            "order_id": 1,
            "kafka_offset": 3,
        },
        {"@id": 2, "order": {"id": 8, "customer": None}, "order_id": 2, "kafka_offset": 4},
    ]
    drafted = draft("p", [of(*rows)])
    [name] = [stream.name for stream in drafted.streams]
    declared = loaded(drafted.text).streams[name]

    assert {column: str(kind) for column, kind in declared.columns.items()} == {
        "id": "long",
        "order_id_2": "long",
        "order_customer_id": "long?",
        "order_customer_city": "string?",
        "order_id": "long",
        "kafka_offset_2": "long",
        "at": "timestamp",
    }
    assert {column: str(part) for column, part in declared.taken_from.items()} == {
        "id": "value.@id",
        "order_id_2": "value.order.id",
        "order_customer_id": "value.order.customer.id",
        "order_customer_city": "value.order.customer.city",
        "kafka_offset_2": "value.kafka_offset",
    }
    assert declared.extra == "dead_letter"


def test_what_makes_rows_too_large_to_be_read_is_left_out() -> None:
    """Objects that are too deep, and those beyond what one expression can match."""
    inner: dict[str, Any] = {"id": 1}
    for _ in range(500):
        inner = {"in": inner}
    row = {"deep": inner, **{f"o{number}": {"id": number} for number in range(150)}}
    drafted = draft("p", [of(row)])
    [stream] = loaded(drafted.text).streams.values()
    [notes] = [each.notes for each in drafted.streams]

    assert stream.extra == "ignore"
    assert 80 < len(stream.columns) < 100
    assert (
        "is left out: a list, or an object that is empty or too deep; o149_id is left out: rows of so many"
        in notes["extra"]
    )


def test_the_event_time_is_the_timestamp_that_is_most_in_order() -> None:
    """Lateness covers the sample, and says so."""
    rows = [
        {"due": "2026-02-01T00:00:00Z", "at": "2026-01-01T00:00:10Z"},
        {"due": "2026-01-05T00:00:00Z", "at": "2026-01-01T00:00:07Z"},
    ]
    [stream] = draft("p", [of(*rows)]).streams
    assert (stream.event_time, stream.lateness) == ("at", 5)
    assert "other timestamps: due" in stream.notes["event_time"]
    assert "lateness: so much were rows of the sample out of order" in stream.notes["event_time"]


def test_a_sample_in_order_gives_no_lateness_of_zero() -> None:
    drafted = draft("p", [of({"at": "2026-01-01T00:00:07Z"}, {"at": "2026-01-01T00:00:10Z"})])
    [stream] = drafted.streams
    assert loaded(drafted.text).streams[stream.name].event_time.lateness == timedelta(seconds=5)
    assert "guess: lateness, since no row of the sample was out of order" in stream.notes["event_time"]


@pytest.mark.parametrize("odd", [{"$numberLong": "7"}, {"a": {"b": 1}}])
def test_most_rows_decide_whether_a_member_is_an_object(odd: dict[str, Any]) -> None:
    rows = [{"order_id": number} for number in range(59)]
    [stream] = draft("p", [of(*rows, {"order_id": odd})]).streams
    assert (stream.columns["order_id"], stream.ignores) == (ColumnType.LONG, False)
    assert stream.notes["columns.order_id"].startswith("guess: 1 of 60 values do not fit")

    [stream] = draft("p", [of(*({"order": {"id": number}} for number in range(59)), {"order": 7})]).streams
    assert [*stream.columns] == ["at", "order_id"]


@pytest.mark.parametrize(
    ("odd", "kind", "note"),
    [
        ("", "timestamp", "guess: 1 of 60 values do not fit, and would be dead letters"),
        ("1970-01-01T00:00:00Z", "timestamp", None),
        ("0001-01-01T00:00:00Z", "timestamp", None),
        (0, "timestamp(ms)", "guess: these integers are milliseconds"),
    ],
)
def test_one_odd_time_hides_no_event_time_and_sets_no_lateness(
    odd: str | int, kind: str, note: str | None
) -> None:
    times = [START + timedelta(seconds=number - 7 * (number % 5 == 0)) for number in range(60)]
    sent = [int(at.timestamp() * 1_000) if odd == 0 else f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in times]
    sent[8] = odd
    [stream] = draft("p", [of(*({"at": at} for at in sent))]).streams

    assert str(stream.columns[stream.event_time]) == kind
    assert stream.lateness == 30
    assert stream.notes.get("columns.at", "").startswith(note or "")
    late = "guess: 1 of 60 rows come more than a day out of order, and would be late"
    assert (late in stream.notes["event_time"]) == (odd != "")


def test_without_a_timestamp_it_says_what_looks_like_one() -> None:
    rows = [{"at": "2026-01-01T00:00:00Z" if number % 2 else ""} for number in range(10)]
    with pytest.raises(
        ConfigError, match=r"no column has.*; at may be one, but only 5 of 10 values are such;"
    ):
        draft("p", [of(*rows)])
    sample = Sample("orders", [Record(b'{"made": "2026-01-01 10:00:00", "id": 1}')])
    with pytest.raises(ConfigError, match=r"no column has timestamps.*made may be one, but is spelled"):
        draft("p", [sample])


def test_integers_of_recent_years_are_event_times_and_say_so() -> None:
    """Unless their name is that of a key."""
    rows = [{"ts": 1767225610000, "item_id": 1767225610000}, {"ts": 1767225607000, "item_id": 1767225610001}]
    sample = Sample("clicks", [Record(json.dumps(row).encode(), timestamp=1767225610000) for row in rows])
    drafted = draft("p", [sample])
    [stream] = drafted.streams
    declared = loaded(drafted.text).streams["clicks"]

    assert (stream.event_time, stream.lateness, stream.is_ahead) == ("ts", 5, False)
    assert {name: str(kind) for name, kind in declared.columns.items()} == {
        "ts": "timestamp(ms)",
        "item_id": "long",
    }
    assert (
        "# guess: these integers are milliseconds since 1970, the first is 2026-01-01T00:00:10Z"
        in drafted.text
    )


def test_seconds_are_event_times_if_there_are_no_others() -> None:
    """Other integers of ten digits stay integers, as long as there is a time."""
    alone = draft("p", [Sample("clicks", [Record(b'{"ts": 1767225610, "phone_no": 1767225610}')])])
    declared = loaded(alone.text).streams["clicks"]

    assert {name: str(kind) for name, kind in declared.columns.items()} == {
        "ts": "timestamp(s)",
        "phone_no": "long",
    }
    assert "# guess: these integers are seconds since 1970, the first is 2026-01-01T00:00:10Z" in alone.text
    [other] = draft("p", [of({"ts": 1767225610})]).streams
    assert (other.event_time, str(other.columns["ts"])) == ("at", "long")


def test_event_times_after_kafka_are_no_violations() -> None:
    value = b'{"at": "2026-01-01T10:00:00Z"}'
    kafka = int(START.timestamp() * 1_000)
    drafted = draft("p", [Sample("orders", [Record(value, timestamp=kafka)])])
    assert loaded(drafted.text).streams["orders"].event_time.ahead is None


def test_one_default_date_in_the_future_sets_neither_lateness_nor_ahead() -> None:
    times = [f"{START + timedelta(seconds=number):%Y-%m-%dT%H:%M:%SZ}" for number in range(60)]
    times[8] = "9999-12-31T00:00:00Z"
    kafka = int(START.timestamp() * 1_000)
    records = [Record(json.dumps({"at": at}).encode(), timestamp=kafka) for at in times]
    drafted = draft("p", [Sample("orders", records)])
    [stream] = drafted.streams

    assert (stream.lateness, stream.is_ahead) == (5, False)
    declared = loaded(drafted.text).streams["orders"].event_time
    assert declared.ahead == timedelta(hours=1)
    told = "guess: 1 of 60 rows are more than 1 h after their time in Kafka, and would be violations"
    assert told in stream.notes["event_time"]


def test_heartbeats_are_no_punctuations_on_columns() -> None:
    beat = b'{"$punctuation": {"at": {"between": {"to": "2026-01-31T12:00:00Z"}}}}'
    sample = Sample("orders", [*of({"id": 1}).records, Record(beat)])
    assert draft("p", [sample]).streams[0].punctuated_on == ()


def test_streams_are_joined_on_what_they_promise() -> None:
    closed = Record(b'{"$punctuation": {"order_id": {"equals": 1}}}')
    orders = of({"shop_id": 1, "order_id": 1})
    payments = of({"shop_id": 1, "order_id": 1, "amount": "1.50"}, topic="payments")
    drafted = draft("p", [orders, Sample("payments", [*payments.records, closed])])
    assert drafted.steps.join is not None
    assert drafted.steps.join.on == ("order_id",)


def test_a_join_key_is_promised_as_a_whole_or_not_at_all() -> None:
    """Punctuations on a part of the key would close nothing, and the file would be refused."""
    both = Record(b'{"$punctuation": {"shop_id": {"equals": 1}, "order_id": {"equals": 1}}}')
    one = Record(b'{"$punctuation": {"order_id": {"equals": 1}}}')
    row = of({"shop_id": 1, "order_id": 1}).records
    drafted = draft("p", [Sample("orders", [*row, both]), Sample("payments", [*row, one])])
    assert loaded(drafted.text).key == ("order_id",)


def test_an_empty_element_is_null() -> None:
    """An empty element says nothing of the type of its column."""
    rows = [b"<r><at>2026-01-01T00:00:00Z</at><n>%s</n></r>" % text for text in (b"1", b"")]
    [stream] = draft("p", [Sample("orders", list(map(Record, rows)))]).streams
    assert str(stream.columns["n"]) == "long?"


def test_streams_without_a_shared_column_are_refused() -> None:
    with pytest.raises(ConfigError, match="share no column"):
        draft("p", [of({"a": 1}), of({"b": 1}, topic="others")])


@pytest.mark.parametrize("records", [[], [Record(None)], [Record(b"plain text")]])
def test_a_topic_without_rows_is_refused(records: list[Record]) -> None:
    with pytest.raises(ConfigError, match="send some rows first"):
        draft("p", [Sample("orders", records)])


def test_a_topic_of_schemas_is_refused_by_its_framing() -> None:
    """One odd record in JSON does not hide what the others are, and neither do tombstones."""
    framed = [Record(b"\0\0\0\0\7\2"), Record(b"\0\0\0\0\1\0\x08\1"), Record(None)]
    odd = Record(b'{"order_id": 1}')
    for records in (framed, [*framed, odd]):
        with pytest.raises(ConfigError, match=r"orders: 2 of [23] records are framed as Avro and Protobuf"):
            draft("p", [Sample("orders", records)])

    drafted = draft("p", [Sample("orders", [*of({"id": 1}, {"id": 2}).records, *framed[:2]])])
    assert drafted.streams[0].format == "json"


def test_keys_in_several_partitions_are_closed_by_all_of_them() -> None:
    closed = Record(b'{"$punctuation": {"id": {"equals": 1}}}')
    rows = [
        Record(record.value, partition=number)
        for number, record in enumerate(of({"id": 1}, {"id": 1}).records)
    ]
    spread = draft("p", [Sample("orders", [*rows, closed])])
    assert loaded(spread.text).streams["orders"].punctuation_scope == "topic"
    together = draft("p", [Sample("orders", [*of({"id": 1}, {"id": 1}).records, closed])])
    assert loaded(together.text).streams["orders"].punctuation_scope == "partition"


@pytest.mark.parametrize("partition", [0, 1])
def test_a_captured_table_is_drafted_with_its_newest_rows(partition: int) -> None:
    """Not if a key has rows in several partitions, since no order says which one is the newest."""
    row, key = {"id": 1, "at": "2026-01-01T00:00:00Z"}, b'{"id": 1}'
    changes: list[dict[str, Any]] = [
        {"before": None, "after": row, "op": "c"},
        {"before": row, "after": row, "op": "u"},
    ]
    values = [json.dumps(change | {"source": {}}).encode() for change in changes]
    sample = Sample("customers", [Record(values[0], key), Record(values[1], key, partition=partition)])
    tables = loaded(draft("p", [sample]).text).tables

    found = {name: (table.source, table.mode, table.key) for name, table in tables.items()}
    expected: dict[str, Any] = {"results": ("customers", "append", ())}
    if not partition:
        expected["newest"] = ("customers", "upsert", ("id",))
    assert found == expected


def test_a_row_with_an_operation_is_no_change_of_a_table() -> None:
    stream = loaded(draft("p", [of({"id": 1, "op": "c"}, {"id": 2, "op": "d"})]).text).streams["orders"]
    assert (stream.format, str(stream.columns["op"])) == ("json", "string")


def test_a_topic_that_a_pipeline_publishes_has_a_better_source_than_its_records() -> None:
    """Rows of a left join without a partner have nulls, so a sample shows neither types nor promises."""
    row = {"orders_order_id": 1, "payments_amount": None, "orders_at": "2026-01-01T00:00:00Z"}
    sample = Sample("paid", [Record(json.dumps(row).encode(), published=True)])

    drafted = draft("p", [sample])

    assert drafted.streams[0].published
    assert "# a pipeline publishes this topic, so `endmark chain FILE STEP`, given the" in drafted.text
    assert not draft("p", [of({"id": 1})]).streams[0].published
