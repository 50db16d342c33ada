"""Groups by other columns than the join key: their names, what closes them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded, states
from endmark.pipeline.explanation import explained
from endmark.types import JoinType
from support.verify_alone import alone
from support.verify_keys import COMPOSITE, LONG, KeyKind
from support.verify_world import make_pipeline


def by(
    *columns: str,
    mode: str = "append",
    kind: JoinType = JoinType.INNER,
    wider: tuple[str, ...] = (),
    keys: KeyKind = LONG,
    **fields: Any,
) -> Pipeline:
    """Auctions whose results are grouped by these columns."""
    pipeline = make_pipeline(aggregated=False, kind=kind, wider=wider, keys=keys, **fields)
    return grouped(pipeline, columns, mode)


def grouped(pipeline: Pipeline, columns: tuple[str, ...], mode: str) -> Pipeline:
    document: dict[str, Any] = pipeline.model_dump()
    document["steps"]["by_other"] = {
        "from": pipeline.flow.results,
        "aggregate": {"by": columns, "measures": {"rows": "count"}},
    }
    document["tables"] = {"by_other": {"mode": mode}}
    return Pipeline.model_validate(document)


def groups_of(pipeline: Pipeline) -> str:
    return next(str(state) for state in states(pipeline) if state.holds == "groups")


@pytest.mark.parametrize(
    ("columns", "kind", "names"),
    [
        (("items.seller_id",), JoinType.INNER, ["items_seller_id"]),
        (("name", "listed_at"), JoinType.LEFT, ["sellers_name", "items_listed_at"]),
        (("sellers.seller_id",), JoinType.FULL, ["bids_seller_id"]),
        (("lot",), JoinType.FULL, ["lot"]),
        (("bids.lot",), JoinType.RIGHT, ["bids_lot"]),
    ],
)
def test_columns_keep_their_origin(columns: tuple[str, ...], kind: JoinType, names: list[str]) -> None:
    """All but those of the join key, which are of the row that is there."""
    pipeline = by(*columns, mode="upsert", kind=kind, keys=COMPOSITE)

    assert pipeline.groups[0].regroups
    assert list(pipeline.groups[0].key) == names
    assert list(pipeline.groups[0].running_columns()) == [*names, "rows", "final", "batch"]
    assert not pipeline.outputs.shows_results


@pytest.mark.parametrize(
    ("columns", "kind", "wider", "closers"),
    [
        (("items.seller_id",), JoinType.INNER, ("seller_id",), {"items": ("seller_id",)}),
        (("items.seller_id",), JoinType.INNER, (), {}),
        (("sellers.name", "items.seller_id"), JoinType.LEFT, ("seller_id",), {"items": ("seller_id",)}),
        # Results without an item have a group for each name.
        (("sellers.name", "items.seller_id"), JoinType.RIGHT, ("seller_id",), {}),
        (("items.seller_id",), JoinType.RIGHT, ("seller_id",), {"items": ("seller_id",)}),
        (("sellers.seller_id",), JoinType.INNER, ("seller_id",), {"bids": ("seller_id",)}),
        (("lot",), JoinType.INNER, (), {"items": ("lot",), "bids": ("lot",)}),
        (("items.lot",), JoinType.INNER, (), {"items": ("lot",), "bids": ("lot",)}),
        (("lot",), JoinType.LEFT, (), {"items": ("lot",)}),
        (("lot",), JoinType.FULL, (), {}),
    ],
)
def test_streams_that_promise_the_columns_close_groups(
    columns: tuple[str, ...], kind: JoinType, wider: tuple[str, ...], closers: dict[str, tuple[str, ...]]
) -> None:
    pipeline = by(*columns, mode="changes", kind=kind, wider=wider, keys=COMPOSITE)

    assert pipeline.groups[0].closers == closers
    require_bounded(pipeline)
    found = groups_of(pipeline)
    if closers:
        assert found.startswith(f"by_other groups: bounded by {next(iter(closers))}' punctuations on ")
    else:
        assert found == f"by_other groups: one for each value of {', '.join(columns)}, for by_other"


@pytest.mark.parametrize(
    ("kind", "besides"),
    [
        (JoinType.LEFT, ""),
        (JoinType.FULL, "; that of results without items stays open"),
        (JoinType.RIGHT, "; that of results without items stays open until the end of bids"),
    ],
)
def test_the_group_of_results_without_the_stream_is_told(kind: JoinType, besides: str) -> None:
    """Its columns are null there, and no pattern matches a null: an appended table never gets its row."""
    pipeline = by("items.seller_id", kind=kind, wider=("seller_id",))
    (groups,) = (state for state in states(pipeline) if state.holds == "groups")

    assert str(groups) == f"by_other groups: bounded by items' punctuations on seller_id{besides}"
    assert groups.facts["note"] == (besides.removeprefix("; ") or None)
    (table,) = (each for each in explained(pipeline).outputs if each.name == "by_other")
    assert table.final == (
        f"a group has one row, which comes when it is final: by items' punctuations on seller_id{besides}"
    )


def test_a_closing_rule_closes_groups() -> None:
    declared: tuple[dict[str, Any], dict[str, Any]] = ({"closes": {"on": "seller_id", "when": "true"}}, {})

    assert by("items.seller_id", declared=declared).groups[0].closers == {"items": ("seller_id",)}


def test_some_presets_announce_no_pattern() -> None:
    pipeline = by(
        "items.seller_id", mode="upsert", wider=("seller_id",), join={"preset": "pjoin"}, windows=(None, None)
    )

    assert pipeline.groups[0].closers == {}


@pytest.mark.parametrize(
    ("columns", "mode", "says"),
    [
        (
            ("items.seller_id",),
            "append",
            "ever close; set streams.items.punctuated_on: [item_id, seller_id], or write the groups so far",
        ),
        (("sellers.name",), "append", "so no group would ever close; write the groups so far"),
        (
            ("item_id", "sellers.name"),
            "upsert",
            "'item_id', 'sellers.name' has more columns than the join key",
        ),
        (
            ("items.item_id",),
            "upsert",
            "'items.item_id' has more columns than the join key 'item_id', or names",
        ),
        (("bids.price",), "upsert", "column 'price' is double"),
        (
            ("seller_id",),
            "upsert",
            "'seller_id' may be one of items.seller_id, bids.seller_id, sellers.seller",
        ),
        (("shops.name",), "upsert", "'shops' is not one of streams or relations"),
        (("bids.seller_id", "sellers.seller_id"), "upsert", "name a column twice; leave one out"),
        (("bids.seller_id", "bids.seller_id"), "upsert", "'bids.seller_id' stands twice"),
        (("bids.seller id",), "upsert", "'seller id' is not a name"),
    ],
)
def test_other_groups_are_refused(columns: tuple[str, ...], mode: str, says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        by(*columns, mode=mode)

    assert says in str(caught.value)
    assert "steps.by_other" in str(caught.value)


def test_a_preset_that_announces_no_pattern_is_named() -> None:
    """The stream promises the column, so there was no sense in the advice to let it do so."""
    with pytest.raises(
        ValidationError, match=r"close; leave steps.matched.preset out, since pjoin announces no pattern, or"
    ):
        by("items.seller_id", wider=("seller_id",), join={"preset": "pjoin"}, windows=(None, None))


def test_the_stream_that_may_be_missing_is_not_told_to_promise() -> None:
    """Its patterns would not close the groups of items without a bid."""
    with pytest.raises(ValidationError, match=r"ever close; set streams.items.punctuated_on: \[item_id, sel"):
        by("bids.tip", "items.seller_id", kind=JoinType.LEFT)


def timed(minute: str, *, joined: bool, **fields: Any) -> Pipeline:
    """Items, alone or joined with bids, in groups by a column that is derived from their event time."""
    stream = {"topic": "t", "columns": {"id": "long", "due": "timestamp"}, "event_time": {"column": "due"}}
    other = {"bids": stream | {"topic": "u"}} if joined else {}
    join = {"sold": {"join": ["timed", "bids"], "on": "id", "window": "1h", **fields}} if joined else {}
    by = {"by": "items.minute", "measures": {"rows": "count"}}
    document = {
        "name": "p",
        "streams": {"items": stream, **other},
        "steps": {
            "timed": {"from": "items", "derive": {"minute": minute}},
            **join,
            "by_minute": {"from": "sold" if joined else "timed", "aggregate": by},
        },
        "tables": {"by_minute": {}},
    }
    return Pipeline.model_validate(document)


@pytest.mark.parametrize("joined", [False, True])
def test_progress_bounds_groups_by_a_derived_time(joined: bool) -> None:
    pipeline = timed("date_trunc('minute', due)", joined=joined)

    require_bounded(pipeline)
    assert groups_of(pipeline) == "by_minute groups: bounded by items' progress past minute"


def test_no_progress_ends_the_group_without_a_time() -> None:
    found = groups_of(timed("date_trunc('minute', due)", joined=True, type="right"))

    bound = "items' progress past minute; that of results without items stays open"
    assert found == f"by_minute groups: bounded by {bound}"


@pytest.mark.parametrize("joined", [False, True])
def test_nobody_is_told_to_promise_a_derived_column(joined: bool) -> None:
    """No punctuation restricts one, so a file that followed the usual advice was refused, too."""
    with pytest.raises(ValidationError) as caught:
        timed("make_timestamptz(id)", joined=joined)
    assert "let records have minute, since no punctuation restricts a derived column" in str(caught.value)
    whose = "items or bids" if joined else "items"
    assert (
        f"or group by a time that date_trunc or time_bucket makes of the event time of {whose}, in a row"
        in (str(caught.value))
    )


def test_nobody_is_told_to_group_by_a_time_that_ends_no_group() -> None:
    """The error once told users to group by time who did, under this preset or by a join key."""
    with pytest.raises(ValidationError) as caught:
        timed("date_trunc('minute', due)", joined=True, preset="wjoin")
    assert "such groups final and leave steps.sold.preset out, since wjoin announces no" in str(caught.value)

    document = timed("date_trunc('minute', due)", joined=True).model_dump(by_alias=True)
    document["steps"]["timed_bids"] = document["steps"]["timed"] | {"from": "bids"}
    document["steps"]["sold"] |= {"join": ["timed", "timed_bids"], "on": "minute"}
    document["steps"]["by_minute"]["aggregate"]["by"] = "minute"
    with pytest.raises(ValidationError, match="close; let records have minute, since") as caught:
        Pipeline.model_validate(document)
    assert "date_trunc or time_bucket" not in str(caught.value)


def test_progress_bounds_no_groups_if_no_pattern_is_announced() -> None:
    with pytest.raises(ValidationError, match="so no group would ever close"):
        timed("date_trunc('minute', due)", joined=True, preset="wjoin")


def test_progress_bounds_no_groups_if_some_have_no_time() -> None:
    """Results without an item are in a group of no minute, which no progress ends. Alone, it is one group."""
    document = timed("date_trunc('minute', due)", joined=True, type="right").model_dump(by_alias=True)
    document["steps"]["by_minute"]["aggregate"]["by"] = ["items.minute", "bids.due"]

    with pytest.raises(ValidationError, match="so no group would ever close"):
        Pipeline.model_validate(document)


@pytest.mark.parametrize("mode", ["upsert", "changes"])
def test_texts_of_the_key_are_no_partitions_of_running_groups(mode: str) -> None:
    """An empty text would be taken for null there, and both are groups."""
    document: dict[str, Any] = by("sellers.name", "bids.due", mode=mode).model_dump()
    document["tables"]["by_other"]["partition_by"] = ["bids_due"]
    Pipeline.model_validate(document)
    document["tables"]["by_other"]["partition_by"] = ["sellers_name"]

    with pytest.raises(
        ValidationError, match=r"tables.by_other.partition_by: column 'sellers_name' is a text"
    ):
        Pipeline.model_validate(document)


def test_the_right_of_a_semi_join_closes_groups_by_columns_of_the_key() -> None:
    """Its patterns on the key are announced for the key of the left stream."""
    pipeline = by("lot", kind=JoinType.SEMI, punctuated=(False, True), windows=(5, 5), keys=COMPOSITE)

    assert groups_of(pipeline) == "by_other groups: bounded by bids' punctuations on lot"


def test_a_semi_join_has_no_right_columns() -> None:
    with pytest.raises(ValidationError, match="is on the right of a semi join"):
        by("bids.seller_id", mode="upsert", kind=JoinType.SEMI)


def test_groups_by_an_open_join_key_need_a_table_of_groups_so_far() -> None:
    """No stream closes keys, so the groups are state that the file asks for."""
    with pytest.raises(ValidationError, match="no stream is punctuated on 'item_id'"):
        by("item_id", punctuated=(False, False))
    pipeline = by("item_id", mode="upsert", punctuated=(False, False))

    assert not pipeline.groups[0].regroups
    require_bounded(pipeline)
    assert groups_of(pipeline) == "by_other groups: one for each value of item_id, for by_other"


def test_unbounded_rows_are_refused_beside_open_groups() -> None:
    pipeline = by("sellers.name", mode="upsert", punctuated=(False, False), windows=(None, 5))

    with pytest.raises(ConfigError, match="items rows: unbounded"):
        require_bounded(pipeline)


def test_a_stream_alone_is_grouped_by_its_own_columns_or_in_a_further_stage() -> None:
    pipeline = alone(make_pipeline(aggregated=False, wider=("seller_id",)), "bids")
    own = grouped(pipeline, ("bids.seller_id",), "append")
    found = grouped(pipeline, ("sellers.name",), "upsert")

    assert (own.key, own.groups[0].regroups, own.groups[0].key) == (("seller_id",), False, ("seller_id",))
    assert found.key == ("item_id", "seller_id")
    assert (found.groups[0].regroups, found.groups[0].key) == (True, ("sellers_name",))
