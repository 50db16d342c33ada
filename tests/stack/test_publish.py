"""A job publishes its results and punctuations, which are read back from a real broker."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from datetime import datetime
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource
from pyspark.sql import SparkSession

from endmark.driver.topics import partition_counts
from endmark.embedded.broker import Broker
from endmark.engine.streams import arrow_schema
from endmark.pipeline import Pipeline
from endmark.pipelines import AUCTION
from endmark.punctuation.json_text import named
from endmark.spark.publish import OutputTopic
from endmark.types import ColumnType, JoinType
from endmark.wire.json.records import JsonParser
from endmark.wire.record_spec import RecordSpec
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.output_topic import MARK, Published, out_of_order, read_topic, without_repeats
from support.verify_keys import KEY_KINDS, KeyKind
from support.verify_world import make_pipeline
from support.warehouse import Warehouse, wait_for

OPTIONS = FeedOptions(seed=5, minutes=0.1, rate=1_500, sellers=500, bad_rate=0.002)
PARTITIONS = 3
# The groups by item once more, by their number of bids, and both kinds of groups as topics.
SIZES = "  sizes: {from: by_item, aggregate: {by: bids, measures: {items: count, most: {sum: highest_bid}}}}"
PUBLISH = """
publish: {matched: {topic: joined}, by_item: {topic: final}, sizes: {topic: sizes, mode: changes}}
"""
NOTHING = {"category": {"equals": "of no item"}}


def key_rows(keys: KeyKind, pipeline: Pipeline) -> pa.RecordBatch:
    """Nine keys, some of them equal."""
    kinds = {name: pipeline.streams["items"].columns[name] for name in keys.types}
    spelled = [json.dumps(keys.spell(number)).encode() for number in range(9)]
    return JsonParser(RecordSpec(kinds, ())).parse(pa.array(spelled, pa.binary())).rows


def result_rows(pipeline: Pipeline, keys: pa.RecordBatch) -> pa.Table:
    """For each key a pair, and a row of each side beside nulls."""
    columns = pipeline.result_columns()
    rows = []
    for number, key in enumerate(keys.to_pylist()):
        filled = {name: _some(str(kind), number) for name, kind in columns.items()}
        filled |= {f"{side}_{name}": value for side in pipeline.sides for name, value in key.items()}
        rows += [filled, without(filled, "items_"), without(filled, "bids_", "sellers_")]
    return pa.Table.from_pylist(rows, arrow_schema(columns))


def without(row: dict[str, Any], *origins: str) -> dict[str, Any]:
    return {name: None if name.startswith(origins) else value for name, value in row.items()}


def _some(kind: str, number: int) -> Any:
    values: dict[str, Any] = {
        "long": -number,
        "double": number / 3 * 1e-9,
        "string": f'\u00fc "{number}" \\ \n\x01',
        "boolean": number % 2 == 0,
        "date": datetime(2026, 1, 1 + number).date(),  # noqa: DTZ001
        "timestamp": datetime.fromisoformat(f"2026-01-01T00:00:00.00000{number}+00:00"),
    }
    return values.get(kind, 0)


@pytest.mark.parametrize("keys", [KEY_KINDS["long"], KEY_KINDS["everything"]], ids=["long", "everything"])
def test_records_are_those_of_a_stream(keys: KeyKind, spark: SparkSession, broker: Broker) -> None:
    """A stream of the results' columns reads them back. A key's results and the punctuations that name it
    share a partition, results first; a pattern is in every partition."""
    pipeline = make_pipeline(keys=keys, kind=JoinType.FULL, aggregated=False)
    columns = pipeline.result_columns()
    by_key = key_rows(keys, pipeline)
    rows = result_rows(pipeline, by_key)
    names = {
        side: named({f"{side}_{name}": by_key.column(name) for name in keys.types}) for side in pipeline.sides
    }
    texts = pa.concat_arrays(list(names.values()))
    pattern = '{"items_seller_id": {"between": {"to": 3}}}'
    topic = f"published-{len(keys.types)}"
    create_topics(broker.bootstrap, {topic: PARTITIONS})

    OutputTopic.of(pipeline, "results", topic, PARTITIONS, broker.bootstrap, "mine").publish(
        spark.createDataFrame(rows),
        spark.createDataFrame(
            pa.table({"punctuation": texts, "completed_by": pa.repeat("closed", len(texts))})
        ),
        [pattern],
        7,
    )
    found = read_topic(broker.bootstrap, topic)

    assert {(record.batch, record.checkpoint) for record in found} == {(7, "mine")}
    results = [record for record in found if record.is_result]
    values = pa.array([record.value for record in results if None not in record.spoken.values()], pa.binary())
    parsed = JsonParser(RecordSpec(columns, ())).parse(values)
    assert not parsed.rejections
    assert as_counts(parsed.rows.to_pylist()) == as_counts(
        row for row in rows.to_pylist() if None not in row.values()
    )
    assert len(results) == rows.num_rows
    punctuations = [record for record in found if not record.is_result]
    assert Counter(json.dumps(record.spoken[MARK], ensure_ascii=False) for record in punctuations) == Counter(
        {**Counter(texts.to_pylist()), pattern: PARTITIONS}
    )
    assert {record.partition for record in punctuations if record.key is None} == set(range(PARTITIONS))
    homes = {(record.key, record.partition) for record in found if record.key is not None}
    assert len(homes) == len({key for key, _ in homes}) == len(set(texts.to_pylist())) // 2
    for partition in range(PARTITIONS):
        mine = [record.is_result for record in found if record.partition == partition]
        assert mine == sorted(mine, reverse=True)


def test_arrays_of_groups_are_spelled_as_single_values(spark: SparkSession, broker: Broker) -> None:
    """Columns of streams have no arrays, so no other record has one."""
    price = ColumnType.decimal(9, 2)
    columns = {"id": ColumnType.LONG, "all": price.array, "times": ColumnType.TIMESTAMP.array, "sum": price}
    time = datetime.fromisoformat("2026-01-01T00:00:00.5+00:00")
    rows = [
        {"id": 1, "all": [Decimal("1.00"), Decimal("2.50")], "times": [time], "sum": Decimal("3.50")},
        {"id": 2, "all": [], "times": [], "sum": None},
    ]
    create_topics(broker.bootstrap, {"arrays": 1})
    OutputTopic(columns, {"id": ["id"]}, "arrays", 1, broker.bootstrap, "mine").publish(
        spark.createDataFrame(pa.Table.from_pylist(rows, arrow_schema(columns))), None, [], 0
    )

    found = [record.spoken for record in read_topic(broker.bootstrap, "arrays")]
    assert sorted(found, key=itemgetter("id")) == [
        {"id": 1, "all": ["1.00", "2.50"], "times": ["2026-01-01T00:00:00.500000Z"], "sum": "3.50"},
        {"id": 2, "all": [], "times": [], "sum": None},
    ]


def test_a_record_that_the_topic_cannot_hold_is_left_out(spark: SparkSession, broker: Broker) -> None:
    """A result is longer than the records that it is made of, so the topic may refuse it. All others and the
    punctuations are published, and a topic for longer records takes it."""
    pipeline = make_pipeline(keys=KEY_KINDS["long"], kind=JoinType.FULL, aggregated=False)
    rows = result_rows(pipeline, key_rows(KEY_KINDS["long"], pipeline)).to_pylist()
    text = next(name for name, kind in pipeline.result_columns().items() if str(kind) == "string")
    rows[0][text] = "x" * 1_048_576
    schema = arrow_schema(pipeline.result_columns())
    results = spark.createDataFrame(pa.Table.from_pylist(rows, schema))
    keys = spark.createDataFrame([('{"items_item_id": {"equals": 3}}',)], "punctuation string")
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    found = {}
    for topic, longest in (("usual", None), ("long", "2000000")):
        create_topics(broker.bootstrap, {topic: 1})
        if longest is not None:
            resource = ConfigResource("TOPIC", topic, {"max.message.bytes": longest})
            admin.alter_configs([resource])
        output = OutputTopic.of(pipeline, "results", topic, 1, broker.bootstrap, "mine", print)
        left_out = output.publish(results, keys, [], 7)
        records = without_repeats(read_topic(broker.bootstrap, topic))
        found[topic] = (left_out, sum(record.is_result for record in records), len(records))
    admin.close()

    assert found == {"usual": (1, len(rows) - 1, len(rows)), "long": (0, len(rows), len(rows) + 1)}


def as_counts(rows: Any) -> Counter[str]:
    return Counter(repr(row) for row in rows)


def test_topic_equals_tables_after_a_crash(tmp_path: Path) -> None:
    """Killed after all of a batch was published and before it was committed, so that it is repeated: then
    the topic has all results and output punctuations of the tables, and nothing is out of order but repeats,
    which their headers tell apart. A topic of groups has the rows of their table, as has one of a rollup.
    `verify` agrees, and finds a record of another writer, and that the topic has dropped records."""
    pipeline = tmp_path / "published.yaml"
    text = AUCTION.read_text().replace("punctuated_on: item_id", "punctuated_on: [item_id, category]", 1)
    text = text.replace("\ntables:\n", f"\n{SIZES}\ntables:\n  sizes: {{mode: changes}}\n")
    pipeline.write_text(
        text.replace("highest_bid:", "prices: {sorted: bids.price}\n        highest_bid:") + PUBLISH
    )
    with Broker(tmp_path / "broker") as broker:
        create_topics(broker.bootstrap, {"joined": PARTITIONS, "final": PARTITIONS, "sizes": PARTITIONS})
        warehouse = Warehouse(tmp_path, broker, f"sqlite:///{tmp_path / 'relation.db'}", OPTIONS, pipeline)
        warehouse.feed()
        promise_everywhere(broker.bootstrap, "items")
        job = warehouse.start_job("--set=batch.records=4000", "--set=batch.every=15m")  # one batch alone
        wait_for(lambda: warehouse.batches() > 0, job, seconds=300)
        job.kill()
        shutil.rmtree(tmp_path / "checkpoint" / "spark" / "commits")
        first = read_topic(broker.bootstrap, "joined")
        again = warehouse.run_to_the_end()
        report = warehouse.verify()
        found = read_topic(broker.bootstrap, "joined")
        groups, sizes = (read_topic(broker.bootstrap, topic) for topic in ("final", "sizes"))
        forge(broker.bootstrap, "final", groups[0])
        forged = warehouse.verify()
        drop(broker.bootstrap, "joined")
        lacking = warehouse.verify()

    assert report.ok, report.to_json()
    compared = {topic.topic: topic for topic in report.published}
    assert compared.keys() == {"joined", "final", "sizes"}
    assert all(topic.actual for topic in compared.values())
    assert compared["joined"].records == len(found) > compared["joined"].actual
    assert [(topic.topic, topic.unexpected) for topic in forged.published if topic.differs] == [("final", 1)]
    assert [(topic.topic, topic.lacks) for topic in lacking.published if topic.lacks] == [("joined", 2)]
    assert [topic.topic for topic in lacking.published if topic.differs] == ["final"]
    assert "Traceback" not in again.log.read_text()
    once = without_repeats(found)
    assert {record.is_result for record in first} == {True, False}
    assert Counter(found) - Counter(once) == Counter(first)
    assert {(record.batch, record.checkpoint) for record in first} == {(0, found[0].checkpoint)}
    assert out_of_order(found) == []
    results, punctuations = tables(tmp_path / "warehouse")
    assert Counter(spelled(record.spoken) for record in once if record.is_result) == results
    pattern = {f"items_{name}": each for name, each in NOTHING.items()}
    assert punctuations[spelled(pattern)] == 1
    punctuations[spelled(pattern)] = PARTITIONS
    assert Counter(spelled(record.spoken[MARK]) for record in once if not record.is_result) == punctuations
    for records, table, key in ((groups, "groups", "item_id"), (sizes, "sizes", "bids")):
        written = DeltaTable(tmp_path / "warehouse" / table).to_pyarrow_table().to_pylist()
        mine = without_repeats(records)
        said = [record.spoken | ({"batch": record.batch} if table == "sizes" else {}) for record in mine]
        assert len(written) > 1
        assert Counter(map(spelled, said)) == Counter(map(spelled, written))
        assert [json.loads(record.key or b"") for record in mine] == [{key: row[key]} for row in said]


def test_a_topic_that_would_repeat_or_lack_rows_is_refused(
    broker: Broker, jars: list[Path], tmp_path: Path
) -> None:
    """A second checkpoint would send all rows again. A topic that was out of the file for a batch lacks its
    rows. Neither job sends anything."""
    assert jars
    orders, topic, file = "refused-orders", "refused-out", tmp_path / "shop.yaml"
    create_topics(broker.bootstrap, {orders: 1, topic: 1})
    text = (
        f"name: shop\nstreams: {{orders: {{topic: {orders}, columns: {{order_id: long, at: timestamp}}, "
        "event_time: {column: at}, punctuated_on: order_id}}\nsteps: {}\ntables: {orders: {}}\n"
    )
    published = f"{text}publish: {{orders: {{topic: {topic}}}}}\n"

    def run(said: str, home: str = "home") -> str:
        file.write_text(said)
        order = {"order_id": 1, "at": "2026-01-01T12:00:00Z"}
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        producer.send(orders, json.dumps(order).encode())
        producer.close()
        at = tmp_path / home
        where = [f"--warehouse={at / 'warehouse'}", f"--checkpoint={at / 'checkpoint'}"]
        command = [sys.executable, "-m", "endmark.cli", "run", str(file), "--available-now", *where]
        command += [f"--bootstrap={broker.bootstrap}", f"--ops-url=sqlite:///{at}.db"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode in {0, 2}, ended.stderr
        return ended.stderr.splitlines()[-1] if ended.returncode else ""

    assert run(published) == ""
    assert f"publish.orders.topic: {topic} has records, and this checkpoint" in run(published, "other")
    assert run(text) == ""
    assert "was taken out of the pipeline file, and lacks the rows since batch 1" in run(published)
    assert sum(record.is_result for record in read_topic(broker.bootstrap, topic)) == 1


def promise_everywhere(bootstrap: str, topic: str) -> None:
    """Rule out in every partition what no row has ever had, so that the promise is announced at once."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for partition in range(partition_counts(bootstrap, [topic])[topic]):
        producer.send(topic, json.dumps({MARK: NOTHING}).encode(), partition=partition)
    producer.close()


def forge(bootstrap: str, topic: str, record: Published) -> None:
    """Send a record of a job once more, as another writer."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, record.value, key=record.key)
    producer.close()


def drop(bootstrap: str, topic: str) -> None:
    """Delete the first two records of a partition."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.delete_records({TopicPartition(topic, 0): 2})
    admin.close()


def tables(warehouse: Path) -> tuple[Counter[str], Counter[str]]:
    """Results and output punctuations as in the tables."""
    results = DeltaTable(warehouse / "results").to_pyarrow_table().to_pylist()
    said = DeltaTable(warehouse / "punctuations").to_pyarrow_table().column("punctuation").to_pylist()
    return Counter(map(spelled, results)), Counter(spelled(json.loads(text)) for text in said)


def spelled(row: dict[str, Any]) -> str:
    values = {
        name: value.isoformat(timespec="microseconds").replace("+00:00", "Z")
        if isinstance(value, datetime)
        else value
        for name, value in row.items()
    }
    return json.dumps(values, sort_keys=True)
