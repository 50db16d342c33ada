"""A checkpoint belongs to one driver at a time, to one pipeline and to one set of tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from functools import reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from endmark.driver.checkpoint import (
    FORMAT,
    app_id_of,
    buckets_before,
    buckets_of,
    claimed,
    fewer_buckets,
    first_offsets,
    gaps,
    known_tables,
    next_batch,
    pin,
    pinned_settings,
    rescaled,
    start_offsets,
    topic_ids,
)
from endmark.driver.published_topics import known_topics
from endmark.driver.settings import settings
from endmark.errors import ConfigError, MissingPartError
from endmark.operators.stream_join.presets import Preset
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.pipeline.steps.lookup import AsOf, Fate, Park, Parking
from endmark.pipelines import AUCTION
from endmark.spark.tables import prepare, targets
from endmark.types import ColumnType
from support.steps import with_step
from support.unions import document, pipeline

SPEC = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"})


def parking(then: Fate, attempts: int) -> Parking:
    return Parking(park=Park(delay=timedelta(seconds=1), attempts=attempts, then=then))


def test_one_driver_at_a_time(tmp_path: Path) -> None:
    """A second job on a checkpoint is refused while the first holds it, and finds the same app id after."""
    with claimed(tmp_path) as first, pytest.raises(MissingPartError, match="in use by another job"):
        claimed(tmp_path).__enter__()
    with claimed(tmp_path) as second:
        assert first == second


def test_app_id_is_minted_with_its_checkpoint(tmp_path: Path) -> None:
    """Two checkpoints never share an app id, since their batch ids both begin at 0."""
    with claimed(tmp_path / "a") as one, claimed(tmp_path / "b") as other:
        assert one != other


KEY_TYPE = {
    name: stream.model_copy(update={"columns": stream.columns | {"item_id": ColumnType.STRING}})
    for name, stream in SPEC.streams.items()
}


RUNNING = {**SPEC.tables, "groups": SPEC.tables["groups"].model_copy(update={"mode": "changes"})}


@pytest.mark.parametrize(
    ("change", "buckets", "said"),
    [
        ({}, 3, "buckets was 2, is 3 (a multiple of 2 is possible)"),
        ({"tables": RUNNING}, 2, 'tables.groups.mode was "append", is "changes"'),
        (
            {"steps": with_step(SPEC, "matched", preset=Preset.PJOIN).steps},
            2,
            'steps.matched.preset was "auto", is "pjoin"',
        ),
        (
            {"steps": with_step(SPEC, "known", miss="nulls", strategy="scan").steps},
            2,
            'steps.known.lookup.miss was "drop", is "nulls"',
        ),
        (
            {"steps": with_step(SPEC, "known", cardinality="many_to_many").steps},
            2,
            'steps.known.lookup.cardinality was "many_to_one", is "many_to_many"',
        ),
        (
            {"steps": with_step(SPEC, "known", miss=parking("drop", 2)).steps},
            2,
            'steps.known.lookup.miss was "drop", is {"park": {"then": "drop"}}',
        ),
        (
            {"steps": with_step(SPEC, "known", as_of=AsOf(stream="bid_at", relation="since")).steps},
            2,
            'steps.known.lookup.as_of was left out, is {"stream": "bid_at", "relation": "since"}',
        ),
        (
            {
                "relations": {"people": SPEC.relations["sellers"]},
                "steps": with_step(SPEC, "known", relation="people").steps,
            },
            2,
            (
                "relations.sellers is named people now, and a name is a part of state and columns, "
                'steps.known.lookup.relation was "sellers", is "people"'
            ),
        ),
        (
            {
                "streams": {"items": SPEC.streams["items"], "offers": KEY_TYPE["bids"]},
                "steps": SPEC.steps | {"known": SPEC.steps["known"].model_copy(update={"source": "offers"})},
            },
            2,
            'streams.bids is left out, streams.offers is new, steps.known.from was "bids", is "offers"',
        ),
        (
            {"name": "sale"},
            2,
            'control.topic was "auction-control", is "sale-control"',
        ),
        (
            {"streams": KEY_TYPE},
            2,
            ", ".join(
                f'streams.{name}.columns.item_id was "long", is "string"' for name in ("bids", "items")
            ),
        ),
    ],
)
def test_changed_settings_are_named(tmp_path: Path, change: dict[str, Any], buckets: int, said: str) -> None:
    """State built with other settings is not gone on with; the message says which differ, and what to do."""
    changed = SPEC.model_copy(update=change)
    with claimed(tmp_path):
        pin(tmp_path, settings(SPEC, buckets=2), tmp_path)
        pin(tmp_path, settings(SPEC, buckets=2), tmp_path)
        with pytest.raises(ConfigError) as refused:
            pin(tmp_path, settings(changed, buckets=buckets), tmp_path)

    assert str(refused.value) == (
        f"checkpoint {tmp_path} was made with other settings: {said}; go back to them, or begin a new "
        "checkpoint by `endmark migrate FILE`, which says what it costs"
    )


SPELLED: dict[str, Any] = {
    "name": "shop",
    "streams": {
        "orders": {
            "topic": "orders",
            "columns": {
                "order_id": "long",
                "seller_id": "long",
                "total": "decimal(18,2)?",
                "at": "timestamp",
            },
            "event_time": {"column": "at", "lateness": "10s"},
            "punctuated_on": "order_id",
        },
        "payments": {
            "topic": "payments",
            "columns": {"order_id": "long", "amount": "long", "at": "timestamp"},
            "event_time": {"column": "at"},
            "closes": {"on": "order_id", "when": "amount > 5"},
        },
    },
    "steps": {
        "big": {"from": "orders", "where": "total > 5", "derive": {"twice": "total * 2"}},
        "paid": {"join": ["big", "payments"], "on": "order_id", "window": "1h", "where": "total > amount"},
        "sums": {
            "from": "paid",
            "aggregate": {"by": "seller_id", "measures": {"rows": "count", "sum": {"sum": "amount"}}},
        },
    },
    "tables": {"sums": {"mode": "upsert"}},
}


def with_field(place: str, value: Any) -> dict[str, Any]:
    """Return `SPELLED` with another value at a place in the file."""
    changed = deepcopy(SPELLED)
    *parts, last = place.split(".")
    reduce(lambda inner, name: inner.setdefault(name, {}), parts, changed)[last] = value
    return changed


@pytest.mark.parametrize(
    ("place", "now"),
    [
        ("streams.orders.event_time.lateness", "10000ms"),
        ("streams.orders.event_time.ahead", "60m"),
        ("streams.orders.taken_from", {"at": "value.at"}),
        ("streams.orders.columns.total", "decimal(18, 2)?"),
        ("streams.payments.closes.when", "(amount>5)"),
        ("steps.big.where", "total\n> 5  -- dear ones"),
        ("steps.big.derive.twice", "total*2"),
        ("steps.paid.where", "total>amount"),
        ("steps.paid.window", {"big": "60m", "payments": "3600s"}),
        ("steps.paid.type", "inner"),
        ("steps.sums.aggregate.by", ["orders.seller_id"]),
        ("steps.sums.aggregate.measures.sum", {"sum": "payments.amount"}),
        ("tables.sums.from", "sums"),
        ("control.topic", "shop-control"),
    ],
)
def test_settings_may_be_spelled_otherwise(tmp_path: Path, place: str, now: Any) -> None:
    """A file that somebody had tidied up was refused, although it meant the same."""
    changed = Pipeline.model_validate(with_field(place, now))
    with claimed(tmp_path):
        pin(tmp_path, settings(Pipeline.model_validate(SPELLED), buckets=2), tmp_path)
        pin(tmp_path, settings(changed, buckets=2), tmp_path)


@pytest.mark.parametrize(
    ("place", "now", "said"),
    [
        ("steps.big.where", "total > 6", 'steps.big.where was "total > 5", is "total > 6"'),
        (
            "steps.paid.window",
            {"big": "1h"},
            'steps.paid.window was "1h", is {"big": "1h", "payments": null}',
        ),
        (
            "steps.sums.aggregate.measures.sum",
            {"sum": "seller_id"},
            'sum.column was "payments.amount", is "orders.seller_id"',
        ),
    ],
)
def test_settings_of_another_meaning_are_refused(tmp_path: Path, place: str, now: Any, said: str) -> None:
    changed = Pipeline.model_validate(with_field(place, now))
    with claimed(tmp_path):
        pin(tmp_path, settings(Pipeline.model_validate(SPELLED), buckets=2), tmp_path)
        with pytest.raises(ConfigError) as refused:
            pin(tmp_path, settings(changed, buckets=2), tmp_path)

    assert said in str(refused.value)


def of_avro(file: Path) -> Pipeline:
    columns = {"order_id": "long", "at": "timestamp"}
    stream = SPELLED["streams"]["orders"] | {"columns": columns, "format": "avro", "schema_file": str(file)}
    pipeline = {"name": "shop", "streams": {"orders": stream}, "tables": {"orders": {}}}
    return Pipeline.model_validate(pipeline)


def with_schema(file: Path, **fields: Any) -> dict[str, Any]:
    """Return the settings of a stream of Avro by the schema in a file, which is written first."""
    at = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    schema = {"type": "record", "name": "A", "fields": [{"name": "order_id", "type": "long"}, at]}
    file.write_text(json.dumps(schema | fields))
    return settings(of_avro(file), buckets=2)


def test_another_schema_in_a_file_is_refused(tmp_path: Path) -> None:
    """Nothing noticed it: older records became dead letters, or had the values of other fields."""
    file = tmp_path / "a.avsc"
    with claimed(tmp_path):
        pin(tmp_path, with_schema(file), tmp_path)
        pin(tmp_path, with_schema(file, doc="Orders of the shop"), tmp_path)
        pin(tmp_path, with_schema(tmp_path / "moved.avsc"), tmp_path)
        with pytest.raises(ConfigError, match=r'orders\.schema_file\.name was "A", is "B"; go back'):
            pin(tmp_path, with_schema(file, name="B"), tmp_path)

    file.write_text("{")
    with pytest.raises(ConfigError, match=r"streams\.orders\.schema_file: .*a\.avsc is no JSON \(Expecting"):
        settings(of_avro(file), buckets=2)


def test_a_knob_that_is_turned_is_left_in_the_file(tmp_path: Path) -> None:
    """The error named a new checkpoint alone, although a turn costs nothing."""

    def pinned(idle: str) -> None:
        time = f"streams.bids.event_time={{column: bid_at{idle}}}"
        changed = load(AUCTION, {"ENDMARK_RELATION_URL": "sqlite://"}, [time])
        pin(tmp_path, settings(changed, buckets=2), tmp_path)

    with claimed(tmp_path):
        pinned(", idle: 30s")
        with pytest.raises(ConfigError, match=r'was "30s", is "1m" \(turn it while the job runs; leave the'):
            pinned(", idle: 1m")
        with pytest.raises(ConfigError, match='idle was "30s", is left out; go back'):
            pinned("")


def test_parking_may_change_but_for_its_end(tmp_path: Path) -> None:
    """How often and how far apart the relation is asked is no matter of state; what comes of rows in the end
    is."""

    def pinned(then: Fate, attempts: int) -> None:
        changed = with_step(SPEC, "known", miss=parking(then, attempts))
        pin(tmp_path, settings(changed, buckets=2), tmp_path)

    with claimed(tmp_path):
        pinned("nulls", 2)
        pinned("nulls", 9)
        with pytest.raises(ConfigError, match=r'lookup\.miss\.park\.then was "nulls", is "dead_letter"'):
            pinned("dead_letter", 2)


def test_knobs_of_the_join_may_change(tmp_path: Path) -> None:
    changed = with_step(SPEC, "matched", purge_every=3, memory=1000)
    with claimed(tmp_path):
        pin(tmp_path, settings(SPEC, buckets=2), tmp_path)
        pin(tmp_path, settings(changed, buckets=2), tmp_path)


def with_tables(*names: str, **others: Any) -> dict[str, Any]:
    tables = {name: SPEC.tables[name] for name in names} | others
    return settings(SPEC.model_copy(update={"tables": tables}), buckets=2)


def test_tables_come_and_go_but_do_not_change(tmp_path: Path) -> None:
    """The checkpoint remembers those that it has had."""
    changed = SPEC.tables["groups"].model_copy(update={"mode": "changes"})
    with claimed(tmp_path):
        pin(tmp_path, with_tables("results"), tmp_path)
        pin(tmp_path, with_tables("results", "groups"), tmp_path)
        pin(tmp_path, with_tables("groups"), tmp_path)
        for names in (("results",), ()):
            with pytest.raises(ConfigError, match=r'tables\.groups\.mode was "append", is "changes"'):
                pin(tmp_path, with_tables(*names, groups=changed), tmp_path)
        pin(tmp_path, with_tables("results", "groups"), tmp_path)


def alone(*tables: str) -> dict[str, Any]:
    """The settings of a stream alone, whose rows a lookup distributes unless a table has a key."""
    known = {
        "history": {"from": "known"},
        "newest": {"from": "known", "mode": "upsert", "key": "order_id"},
        "same": {"from": "known", "mode": "upsert", "key": "customer_id"},
    }
    columns = {"order_id": "long", "customer_id": "long", "at": "timestamp"}
    lookup = {"relation": "customers", "key": "customer_id", "miss": "nulls"}
    customers = {"customer_id": "long", "name": "string"}
    relation = {"url": "sqlite://", "table": "customers", "key": "customer_id", "columns": customers}
    orders = {"topic": "orders", "columns": columns, "event_time": {"column": "at"}}
    written = {
        "name": "alone",
        "streams": {"orders": orders},
        "relations": {"customers": relation},
        "steps": {"known": {"from": "orders", "lookup": lookup}},
        "tables": {name: known[name] for name in tables},
    }
    return settings(Pipeline.model_validate(written), buckets=2)


@pytest.mark.parametrize(("before", "after"), [(["history"], ["newest"]), (["newest"], ["history"])])
def test_no_table_changes_the_key_of_a_stream_alone(
    tmp_path: Path, before: list[str], after: list[str]
) -> None:
    """Rows that waited in buckets of the old key came into the table behind newer rows, or beside them."""
    with claimed(tmp_path):
        pin(tmp_path, alone(*before), tmp_path)
        with pytest.raises(ConfigError, match="a table with a key has come or gone; go back") as refused:
            pin(tmp_path, alone(*after), tmp_path)
        pin(tmp_path, alone(*before), tmp_path)

    was, now = ("customer_id", "order_id") if after == ["newest"] else ("order_id", "customer_id")
    assert f"rows of orders by {was}, but would distribute them by {now}, since" in str(refused.value)


def test_a_table_may_have_the_key_of_a_stream_alone(tmp_path: Path) -> None:
    with claimed(tmp_path):
        for tables in (["history"], ["same"], ["history"]):
            pin(tmp_path, alone(*tables), tmp_path)


def test_the_next_batch_is_the_first_that_is_not_committed(tmp_path: Path) -> None:
    assert next_batch(tmp_path) == 0
    commits = tmp_path / "spark" / "commits"
    commits.mkdir(parents=True)
    for name in ("8", "9", "10", ".10.crc"):
        (commits / name).touch()
    assert next_batch(tmp_path) == 11


@pytest.mark.parametrize(
    "read", [pinned_settings, known_tables, known_topics, first_offsets, start_offsets, topic_ids, gaps]
)
def test_a_torn_file_is_refused_by_name(tmp_path: Path, read: Callable[[Path], object]) -> None:
    (tmp_path / "endmark").mkdir()
    assert not read(tmp_path)
    for name in ("settings", "tables", "published", "first_offsets", "start_offsets", "topics", "gaps"):
        (tmp_path / "endmark" / f"{name}.json").write_text('{"buckets": 2, "str')

    with pytest.raises(
        ConfigError, match=r"endmark/\w+\.json is no JSON \(Unterminated string.*restore this file"
    ):
        read(tmp_path)


def test_tables_of_another_checkpoint_are_refused(tmp_path: Path) -> None:
    """A fresh checkpoint on old tables would write their rows again."""
    tables = {table.channel: table for table in targets(SPEC, tmp_path)}
    with claimed(tmp_path / "one") as one, claimed(tmp_path / "other") as other:
        prepare(tables, one, tmp_path / "one")
        prepare(tables, one, tmp_path / "one")

        with pytest.raises(ConfigError, match="results was written from another checkpoint"):
            prepare(tables, other, tmp_path / "other")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (["stores", "web"], 'steps.orders.union was ["web", "stores"], is ["stores", "web"]'),
        (
            ["web", "stores", "fairs"],
            'steps.orders.union was ["web", "stores"], is ["web", "stores", "fairs"]',
        ),
    ],
)
def test_members_of_a_union_are_pinned(tmp_path: Path, members: list[str], said: str) -> None:
    """Partitions are numbered by them, and all of them close its keys."""
    changed = document()
    changed["steps"]["orders"]["union"] = members
    changed["streams"] |= (
        {"fairs": changed["streams"]["web"] | {"topic": "fairs"}} if len(members) > 2 else {}
    )

    with claimed(tmp_path):
        pin(tmp_path, settings(pipeline(), 2), tmp_path)
        with pytest.raises(ConfigError) as caught:
            pin(tmp_path, settings(Pipeline.model_validate(changed), 2), tmp_path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "which"),
    [
        ('{"format": 2, "endmark": "9.9"}', "it has format 2 of endmark 9.9"),
        ('{"format": 0, "endmark": "0.0.1"}', "it has format 0 of endmark 0.0.1"),
        ('{"format": "1"}', "the file has other fields"),
        ("[1]", "the file has other fields"),
        (None, "the file is missing"),
    ],
)
def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path, text: str | None, which: str) -> None:
    """An earlier version must not go on with what it does not understand."""
    with claimed(tmp_path):
        pass
    file = tmp_path / "endmark" / "format.json"
    file.unlink()
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(which)):
        claimed(tmp_path).__enter__()
    with pytest.raises(ConfigError, match=re.escape(which)):
        app_id_of(tmp_path)


def test_a_checkpoint_keeps_its_format(tmp_path: Path) -> None:
    with claimed(tmp_path):
        kept = json.loads((tmp_path / "endmark" / "format.json").read_text())
    with claimed(tmp_path):
        pass

    assert kept == {"format": FORMAT, "endmark": version("endmark")}
    assert json.loads((tmp_path / "endmark" / "format.json").read_text()) == kept


def test_a_later_format_is_refused_without_an_app_id(tmp_path: Path) -> None:
    (tmp_path / "endmark").mkdir()
    (tmp_path / "endmark" / "format.json").write_text('{"format": 2, "endmark": "9.9"}')
    with pytest.raises(ConfigError, match="format 2"):
        claimed(tmp_path).__enter__()


def test_a_crash_before_the_app_id_leaves_a_checkpoint_that_can_be_used(tmp_path: Path) -> None:
    with claimed(tmp_path):
        pass
    (tmp_path / "endmark" / "app_id").unlink()

    with claimed(tmp_path) as app_id:
        assert app_id == app_id_of(tmp_path)


def test_a_lost_app_id_is_refused_once_there_are_tables(tmp_path: Path) -> None:
    """A new app id would let Delta take a repeated batch for a new one."""
    with claimed(tmp_path) as app_id:
        prepare({table.channel: table for table in targets(SPEC, tmp_path)}, app_id, tmp_path)
    (tmp_path / "endmark" / "app_id").unlink()

    with pytest.raises(ConfigError, match="app_id: the file is missing"):
        claimed(tmp_path).__enter__()


def test_copies_of_fewer_buckets_stay_until_a_batch_is_committed(tmp_path: Path) -> None:
    with claimed(tmp_path):
        pin(tmp_path, settings(SPEC, 2), tmp_path)
        commits = tmp_path / "spark" / "commits"
        commits.mkdir(parents=True)
        (commits / "7").touch()
        assert [buckets_before(tmp_path, number) for number in (1, 2, 3, 4, 6)] == [None, None, None, 2, 2]

        rescaled(tmp_path, 2, 4)

        assert buckets_of(tmp_path) == 4

        pin(tmp_path, settings(SPEC, 4), tmp_path)
        found = fewer_buckets(tmp_path)
        assert found is not None
        assert found.buckets == 2
        found.state(0, 1).write([("snapshot", b"s")])
        (commits / "8").touch()
        assert fewer_buckets(tmp_path) is None
        assert not (tmp_path / "endmark" / "earlier_buckets").exists()
        with pytest.raises(ConfigError, match=r"buckets was 4, is 2 \(a multiple of 4 is possible\)"):
            pin(tmp_path, settings(SPEC, 2), tmp_path)
