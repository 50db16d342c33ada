"""The pipeline file: what is refused, and how clearly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION

ENVIRONMENT = {"ENDMARK_RELATION_URL": "sqlite:///r.db"}


def changed(tmp_path: Path, path: str, value: Any) -> Path:
    """The auction pipeline with one value replaced; `None` removes it."""
    document: dict[str, Any] = load(AUCTION, ENVIRONMENT).model_dump(mode="json", exclude_defaults=True)
    document["steps"]["matched"]["window"] = {"items": "60s", "known": "10s"}
    document["steps"]["known"]["lookup"]["time_per_batch"] = "200ms"
    *parents, last = path.split(".")
    node = document
    for name in parents:
        node = node[name]
    if value is None:
        del node[last]
    else:
        node[last] = value
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("steps.matched.join", None, "steps.matched: a step has one of lookup, union, join and aggregate"),
        ("steps.matched.joins", "items", "steps.matched.joins: unknown field"),
        ("steps.matched.join", ["items"], "steps.matched.join: Value should have at least 2 items"),
        ("steps.matched.join", ["items", "items"], "steps.matched.join: 'items' stands twice"),
        (
            "steps.matched.join",
            ["itms", "known"],
            "steps.matched: window.items: 'items' is not one of join: itms, known",
        ),
        ("steps.known.from", "bds", "steps.known.from: 'bds' is not one of streams or steps: items, bids, m"),
        ("steps.known.from", "matched", "steps.known: these steps take each other's rows: known, matched"),
        ("steps.known.from", "items", "steps.matched: 'items' goes to step known already, and a stream or"),
        (
            "steps.bids",
            {"from": "by_item", "aggregate": {"by": "item_id", "measures": {"n": "count"}}},
            "steps.bids: a stream has this name, too",
        ),
        (
            "steps.again",
            {"from": "by_item", "aggregate": {"by": "item_id", "measures": {"n": "count"}}},
            "steps.again.aggregate.by: item_id has the whole key of by_item, so each group",
        ),
        (
            "steps.by_item",
            None,
            "tables.groups.from: 'by_item' is not one of steps or streams: known, matched, items, bids",
        ),
        ("steps.matched.lookup", {}, "steps.matched: a step has one of lookup, union, join and aggregate"),
        ("steps.matched.on", "price", "steps.matched.on: no column 'price'; there are item_id"),
        ("steps.matched.on", [], "at least 1 item"),
        ("steps.matched.on", ["item_id", "item_id"], "steps.matched.on: 'item_id' stands twice"),
        (
            "steps.matched.on",
            ["item_id", "seller_id"],
            "punctuated_on: 'seller_id' of the join key 'item_id', 'seller_id' is",
        ),
        (
            "steps.matched.type",
            "outer",
            "steps.matched.type: Input should be 'inner', 'left', 'right', 'full' or 'semi'",
        ),
        (
            "steps.matched.type",
            "semi",
            "steps.by_item.aggregate.measures.highest_bid: 'bids.price' is on the right of a semi join",
        ),
        ("steps.matched.where", "", "steps.matched.where: String should have at least 1 character"),
        (
            "streams.bids.columns.item_id",
            "string",
            "steps.matched.on: column 'item_id' is long in stream items, but s",
        ),
        ("streams.bids.columns.price", "decimal(39,2)", "a decimal has 1 to 38 digits in all"),
        ("streams.bids.columns.price", "decimal(2,3)", "no more than that after the point"),
        ("streams.bids.columns.price", "decimal(18", "between braces a decimal needs quotes"),
        ("streams.items.punctuated_on", "itm", "streams.items: punctuated_on: no column 'itm'"),
        (
            "streams.items.ordered",
            {"seller_id": "ascending"},
            "streams.items.ordered: 'seller_id' is not the join key 'item_id', so it closes no key",
        ),
        (
            "streams.bids.unique",
            ["item_id", "seller_id"],
            "is not the join key 'item_id', so it closes no key",
        ),
        ("streams.items.ordered", {"item_id": "up"}, "streams.items.ordered.item_id: Input should be 'asc"),
        ("streams.bids.clustered", "price", "'price' is not the join key 'item_id', so it closes no key"),
        (
            "streams.bids.closes",
            {"on": "item", "when": "price < 0"},
            "streams.bids: closes.on: no column 'item'; there are bid_id",
        ),
        (
            "streams.bids.columns.bid_at",
            "timestamp?",
            "streams.bids: event_time.column: column 'bid_at' is timestamp?, but a row without event time be",
        ),
        ("streams.bids.columns.price", "int64?", "decimal(18,2); for int64 write long"),
        ("streams.bids.columns", ["price"], "streams.bids.columns: write names with values here, such as"),
        ("streams.bids.event_time", "bid_at", "streams.bids.event_time: write names with values here, such"),
        ("streams.bids.columns.price", "double??", "streams.bids.columns.price: 'double??' is not one of"),
        ("streams.bids.columns.price", "?", "streams.bids.columns.price: '?' is not one of"),
        (
            "relations.sellers.columns.name",
            "string?",
            "relations.sellers.columns.name: string? says nothing more than string, since a table may",
        ),
        ("streams.bids.extra", "drop", "streams.bids.extra: Input should be 'dead_letter' or 'ignore'"),
        ("streams.bids.closes", {"on": "item_id"}, "streams.bids.closes.when: this field is missing"),
        (
            "streams.bids.closes",
            {"on": [], "when": "price < 0"},
            "bids.closes.on: Value should have at",
        ),
        (
            "steps.by_item.aggregate.measures.item_id",
            "count",
            "columns 'item_id' and 'item_id' are one to Spark and Delta",
        ),
        (
            "tables.Groups",
            {"from": "by_item", "mode": "changes"},
            "tables.Groups: 'groups' is another table's name too",
        ),
        ("tables.violations", {"from": "matched"}, "tables.violations: 'violations' is another table's name"),
        ("tables.more", {"from": "matched"}, "tables.more: results has the same rows of matched; leave one"),
        ("tables.nothing", {}, "tables.nothing: 'nothing' is not one of steps or streams: known, matched, b"),
        ("tables.results.mode", "upsert", "tables.results.mode: upsert is for the groups of an aggregate"),
        ("tables.results.mode", "replace", "Input should be 'append', 'changes' or 'upsert'"),
        ("tables", {}, "tables: no table has the rows of by_item; name one"),
        (
            "steps.by_item.aggregate.by",
            [],
            "steps.by_item.aggregate.by: no column is named; for one group of all rows, derive a constant",
        ),
        (
            "tables",
            {"matched": {}},
            "steps.by_item: no table or topic has its groups; add tables.by_item: {}",
        ),
        (
            "tables.results.partition_by",
            "day",
            "tables.results.partition_by: no column 'day'; there",
        ),
        (
            "tables.groups.partition_by",
            "highest_bid",
            "tables.groups.partition_by: column 'highest_bid' is double, and equal doubles are a matter of",
        ),
        (
            "tables.results.partition_by",
            ["items_category", "items_category"],
            "tables.results.partition_by: 'items_category' stands twice",
        ),
        (
            "tables.results",
            {"from": "matched", "partition_by": "bids_bid_at", "cluster_by": ["bids_price"]},
            "tables.results.cluster_by: delta-rs, which sorts the rows, writes column 'bids_bid_at' of",
        ),
        (
            "tables.results",
            {"from": "matched", "partition_by": "items_category", "cluster_by": ["items_category"]},
            "tables.results.cluster_by: column 'items_category' has one value in each file anyhow; leave it",
        ),
        (
            "tables.results.cluster_by",
            "price",
            "tables.results.cluster_by: no column 'price'; there",
        ),
        (
            "publish",
            {"matched": {"topic": "items"}},
            "publish.matched.topic: 'items' is read by a stream",
        ),
        (
            "publish",
            {"matched": {"topic": "out", "mode": "changes"}},
            "publish.matched.mode: changes is for the groups of an aggregate; rows of matched never change",
        ),
        (
            "publish",
            {"matched": {"topic": "auction-control"}},
            "control.topic: 'auction-control' is a topic of a stream",
        ),
        (
            "control",
            {"topic": "bids"},
            "control.topic: 'bids' is a topic of a stream or of publish; name ano",
        ),
        (
            "steps.known.lookup.miss",
            "wait",
            "steps.known.lookup.miss: Input should be 'drop', 'nulls' or 'dead_letter'",
        ),
        (
            "steps.known.lookup.miss",
            {"park": {"delay": "5s"}},
            ": steps.known.lookup.miss.park.attempts: this field is missing",
        ),
        (
            "steps.known.lookup.miss",
            {"park": {"delay": "0s", "attempts": 2}},
            ": steps.known.lookup.miss.park.delay: 0 s is not from 1ms to 36500d",
        ),
        (
            "steps.known.lookup.miss",
            {"park": {"delay": "1s", "attempts": 1}},
            ": steps.known.lookup.miss.park.attempts: Input should",
        ),
        ("publish", {"matched": {}}, "publish.matched.topic: this field is missing"),
        ("publish", {"matched": {"topic": "a b"}}, "publish.matched.topic: String should match"),
        (
            "steps.matched.window",
            {"items": "60 parsecs"},
            "steps.matched.window.items: '60 parsecs' is not a duration",
        ),
        (
            "steps.known.lookup.relation",
            "buyers",
            "steps.known.lookup.relation: 'buyers' is not one of relations: sellers",
        ),
        (
            "steps.known.lookup.key",
            "price",
            "steps.known.lookup.key: column 'price' is double, but must be long",
        ),
        (
            "steps.known.lookup.key",
            ["seller_id", "item_id"],
            "steps.known.lookup.key: 'seller_id', 'item_id' must have a column for each",
        ),
        (
            "relations.sellers.key",
            "rating",
            "relations.sellers: key: column 'rating' is double, and equal doub",
        ),
        (
            "relations.sellers.key",
            "name",
            "steps.known.lookup.key: column 'seller_id' is long, but must be string",
        ),
        (
            "steps.known.lookup.page_rows",
            0,
            "steps.known.lookup.page_rows: Input should be greater than or equal to 1",
        ),
        (
            "relations.sellers.table",
            "sellers; drop table x",
            "relations.sellers.table: 'sellers; drop table x' is not",
        ),
        ("relations.sellers.table", "sellers\n", "relations.sellers.table: 'sellers\\n' is not a name"),
        ("relations.sellers.table", "all-sellers", "so only the pipeline itself may have - in its name"),
        ("name", "auction\n", "name: 'auction\\n' is no name of a pipeline: letters, digits, _ and - only"),
        ("name", "-auction", "name: '-auction' is no name of a pipeline: letters, digits, _ and - only"),
        ("streams.bids.event_time.column", "when", "streams.bids: event_time.column: no column 'when'"),
        (
            "streams.bids.columns.price",
            "real",
            "streams.bids.columns.price: 'real' is not one of long, double, string, boolean",
        ),
        (
            "relations.sellers.columns.rating",
            "float",
            "relations.sellers.columns.rating: float says how the records of a stream spell a value, and a",
        ),
        (
            "steps.by_item.aggregate.by",
            "seller_id",
            "steps.by_item.aggregate.by: 'seller_id' may be one of items.seller_id, bids.seller_id, sellers",
        ),
        (
            "steps.by_item.aggregate.measures.highest_bid",
            {"max": "bids.prize"},
            "steps.by_item.aggregate.measures.highest_bid: no column",
        ),
        (
            "steps.by_item.aggregate.measures.highest_bid",
            {"median": "bids.price"},
            "steps.by_item.aggregate.measures.highest_bid: write `count`, or {f: stream.column} where f is",
        ),
        (
            "steps.by_item.aggregate.measures.highest_bid",
            {"count": "bids.price"},
            "write `count`, or {f: stream.column}",
        ),
        (
            "steps.by_item.aggregate.measures.highest_bid",
            "sum",
            "steps.by_item.aggregate.measures.highest_bid: write `count`, or {f:",
        ),
        (
            "steps.by_item.aggregate.measures.highest_bid",
            {"avg": "items.category"},
            "steps.by_item.aggregate.measures.highest_bid: items.category is string, which does not add up",
        ),
        (
            "steps.by_item.aggregate.measures.highest_bid",
            {"sum": "bids.bid_at"},
            "bids.bid_at is timestamp, which does n",
        ),
    ],
)
def test_wrong_field_is_named(tmp_path: Path, path: str, value: Any, says: str) -> None:
    """The message names the file, the field and what is wrong with it."""
    file = changed(tmp_path, path, value)

    with pytest.raises(ConfigError) as caught:
        load(file, ENVIRONMENT)
    assert str(file) in str(caught.value)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "kind", ["string", "boolean", "date", "timestamp", "decimal(38,38)", "decimal(1, 0)"]
)
def test_a_key_may_be_of_any_exact_type(tmp_path: Path, kind: str) -> None:
    """Two streams join on columns of one type, which says its own name."""
    document = yaml.safe_load(changed(tmp_path, "steps.matched.type", "full").read_text())
    for stream in document["streams"].values():
        stream["columns"]["item_id"] = kind
    pipeline = Pipeline.model_validate(document)

    [groups] = pipeline.groups
    assert pipeline.key == groups.aggregate.by == pipeline.streams["bids"].punctuated_on == ("item_id",)
    assert str(groups.columns()["item_id"]) == kind.replace(" ", "")
    assert pipeline.model_dump(mode="json")["streams"]["bids"]["columns"]["item_id"] == kind.replace(" ", "")


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("punctuated_on", ["item_id", "bidder_id"], "punctuated_on"),
        ("closes", {"on": "bidder_id", "when": "price < 0"}, "closes.on"),
        ("unique", "bidder_id", "unique"),
        ("clustered", "bidder_id", "clustered"),
        ("ordered", {"bidder_id": "ascending"}, "ordered"),
    ],
)
def test_a_column_of_promises_is_not_nullable(tmp_path: Path, field: str, value: Any, name: str) -> None:
    document = yaml.safe_load(changed(tmp_path, "steps.matched.type", "full").read_text())
    document["streams"]["bids"]["columns"]["bidder_id"] = "long?"
    document["streams"]["bids"][field] = value

    with pytest.raises(ValueError, match=r"streams\.bids") as caught:
        Pipeline.model_validate(document)
    says = f"{name}: column 'bidder_id' is long?, but no promise speaks of null; declare it long, so that a"
    assert says in str(caught.value)


def test_all_other_columns_may_be_nullable(tmp_path: Path) -> None:
    """The join key of a stream without promises, and a looked-up column. Types are the same with and without
    nulls, and the tables' columns do not say which they are."""
    document = yaml.safe_load(changed(tmp_path, "steps.matched.type", "full").read_text())
    plain = Pipeline.model_validate(document)
    bids, items = document["streams"]["bids"], document["streams"]["items"]
    bids["columns"] |= {name: f"{kind}?" for name, kind in bids["columns"].items() if name != "bid_at"}
    items["columns"] |= {"seller_id": "long?", "category": "string?", "start_price": "double?"}
    del bids["punctuated_on"]
    bids["extra"] = "ignore"

    pipeline = Pipeline.model_validate(document)

    assert pipeline.streams["bids"].columns["item_id"].nullable
    assert pipeline.result_columns() == plain.result_columns()
    assert pipeline.groups[0].columns() == plain.groups[0].columns()
    assert pipeline.model_dump(mode="json")["streams"]["bids"]["columns"]["item_id"] == "long?"


def test_a_lookup_key_may_be_of_many_columns(tmp_path: Path) -> None:
    """The stream's columns are paired with R's by their places; R's are not in the results again."""
    pipeline = load(changed(tmp_path, "relations.sellers.key", ["seller_id"]), {"ENDMARK_RELATION_URL": "x"})
    sellers = pipeline.relations["sellers"].model_copy(update={"key": ("name", "seller_id")})
    several = pipeline.model_copy(update={"relations": {"sellers": sellers}})

    assert pipeline == load(
        changed(tmp_path, "steps.known.lookup.key", "seller_id"), {"ENDMARK_RELATION_URL": "x"}
    )
    assert {"sellers_name", "sellers_seller_id"}.isdisjoint(several.side_columns("bids"))


def test_a_double_is_no_key(tmp_path: Path) -> None:
    """Equality of doubles is a matter of rounding, so they are refused with what to declare instead."""
    document = yaml.safe_load(changed(tmp_path, "steps.matched.type", "full").read_text())
    for stream in document["streams"].values():
        stream["columns"]["item_id"] = "double"

    with pytest.raises(ValueError, match=r"steps\.matched\.on: column 'item_id' is double.*decimal\(18,2\)"):
        Pipeline.model_validate(document)


def test_many_columns_may_be_the_key(tmp_path: Path) -> None:
    """The same columns are the key everywhere, in any order; groups show them in the order of `by`."""
    document = yaml.safe_load(changed(tmp_path, "steps.matched.type", "full").read_text())
    for stream in document["streams"].values():
        stream["punctuated_on"] = ["seller_id", "item_id"]
    document["steps"]["matched"]["on"] = ["item_id", "seller_id"]
    document["steps"]["by_item"]["aggregate"]["by"] = ["seller_id", "item_id"]

    assert list(Pipeline.model_validate(document).groups[0].columns())[:2] == ["seller_id", "item_id"]


def test_results_of_a_semi_join_have_the_left_columns(tmp_path: Path) -> None:
    """The condition may still name both sides'."""
    document = yaml.safe_load(changed(tmp_path, "steps.matched.type", "semi").read_text())
    document["steps"]["by_item"]["aggregate"]["measures"] = {
        "items": "count",
        "highest_start": {"max": "items.start_price"},
    }
    pipeline = Pipeline.model_validate(document)

    assert pipeline.result_columns() == pipeline.side_columns("items")
    assert pipeline.last_stage.columns.of_pairs == pipeline.side_columns("items") | pipeline.side_columns(
        "bids"
    )


@pytest.mark.parametrize(
    ("function", "of", "kind"),
    [
        ("sum", "long", "long"),
        ("sum", "double", "double"),
        ("sum", "decimal(28,2)", "decimal(38,2)"),
        ("avg", "decimal(6,2)", "double"),
        ("avg", "long", "double"),
        ("min", "decimal(38,2)", "decimal(38,2)"),
        ("first", "string", "string"),
        ("last", "date", "date"),
        ("count_distinct", "boolean", "long"),
        ("sorted", "decimal(6,2)", "array<decimal(6,2)>"),
    ],
)
def test_measures_have_types(tmp_path: Path, function: str, of: str, kind: str) -> None:
    document = yaml.safe_load(changed(tmp_path, "streams.bids.columns.price", of).read_text())
    document["steps"]["by_item"]["aggregate"]["measures"] = {"one": {function: "bids.price"}}

    assert str(Pipeline.model_validate(document).groups[0].columns()["one"]) == kind


def test_a_sum_has_room_to_grow(tmp_path: Path) -> None:
    """Ten digits more than what is added."""
    document = yaml.safe_load(changed(tmp_path, "streams.bids.columns.price", "decimal(29,2)").read_text())
    document["steps"]["by_item"]["aggregate"]["measures"] = {"one": {"sum": "bids.price"}}

    with pytest.raises(ValueError, match=r"bids.price is decimal\(29,2\), whose sum could need more than 38"):
        Pipeline.model_validate(document)


def test_missing_environment_variable_is_named() -> None:
    """A pipeline file that uses an unset variable says which."""
    with pytest.raises(ConfigError, match="environment variable ENDMARK_RELATION_URL is not set"):
        load(AUCTION, {})


def test_value_from_the_environment_cannot_change_the_document() -> None:
    """A URL with YAML's own characters stays one value."""
    url = "mysql+pymysql://u:p: {x}\n#'@host/db"

    assert url == load(AUCTION, {"ENDMARK_RELATION_URL": url}).relations["sellers"].url


def test_no_pipeline_file(tmp_path: Path) -> None:
    """A missing, unreadable or empty file is one clear line."""
    with pytest.raises(ConfigError, match="cannot read the pipeline file"):
        load(tmp_path / "none.yaml")
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(ConfigError, match="a pipeline file is a mapping"):
        load(tmp_path / "empty.yaml")
    (tmp_path / "broken.yaml").write_text("a: [")
    with pytest.raises(ConfigError, match="not a YAML document"):
        load(tmp_path / "broken.yaml")
