"""Groups of a frame without Spark: of every type, over any number of buckets, and what is refused."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from endmark.errors import ConfigError
from endmark.frame.grouping import Grouping, declared_groups
from endmark.frame.texts import Writer
from endmark.wire.renamed_punctuations import Renaming
from support.frame_tasks import COLUMN, Rows, said
from support.group_tasks import GroupTasks

SALES = pa.schema(
    [
        ("shop", pa.string()),
        ("day", pa.date32()),
        ("pieces", pa.int32()),
        ("price", pa.decimal128(6, 2)),
        ("weight", pa.float64()),
        ("photo", pa.binary()),
    ]
)
MEASURES = {
    "sales": "count",
    "pieces": {"sum": "pieces"},
    "cheapest": {"min": "price"},
    "total": {"sum": "price"},
    "mean": {"avg": "weight"},
    "days": {"count_distinct": "day"},
    "sizes": {"sorted": "pieces"},
}


def sale(shop: str | None, day: int, pieces: int = 1, price: str | None = "2.50") -> dict[str, Any]:
    some = None if price is None else Decimal(price)
    return {"shop": shop, "day": date(2026, 1, day), "pieces": pieces, "price": some, "weight": pieces / 4}


def groups(directory: Path, by: tuple[str, ...] = ("shop",), buckets: int = 2) -> GroupTasks:
    rows = pa.schema(list(SALES)[:-1])
    return GroupTasks(rows, Renaming.none(rows), directory, by, MEASURES, buckets=buckets)


def told(tasks: GroupTasks, rows: Rows) -> tuple[list[tuple[Any, ...]], list[Any]]:
    """Groups of a batch, and texts by the names of their columns."""
    out = tasks.batch(rows)
    found = [tuple(row.values())[:-1] for row in out if row[COLUMN] is None]
    texts = pa.array([row[COLUMN] for row in out if row[COLUMN] is not None], pa.string())
    written = Writer(tasks.grouping.renaming)(texts).to_pylist()
    return sorted(found), sorted((json.loads(text) for text in written if text is not None), key=repr)


@pytest.mark.parametrize("buckets", [1, 2, 7])
def test_a_group_comes_out_with_its_punctuation(tmp_path: Path, buckets: int) -> None:
    """Once, with the measures of rows of all batches; what comes later is a violation, and in no group."""
    tasks = groups(tmp_path, buckets=buckets)
    north, east = {"shop": {"equals": "north"}}, {"shop": {"equals": "east"}}

    assert told(tasks, [sale("north", 1, 2), sale("south", 1), said(east)]) == ([], [east])
    rows = [sale("north", 2, 3, None), sale("north", 1, 1, "1.00"), said(north)]
    assert told(tasks, rows) == (
        [("north", 3, 6, Decimal("1.00"), Decimal("3.50"), 0.5, 2, [1, 2, 3])],
        [north],
    )
    found, texts = told(tasks, [sale("north", 3)])

    assert found == []
    (broken,) = (text["$violation"] for text in texts)
    assert (broken["frame"], broken["reason"], broken["promise"]) == ("frame", "closed", north)
    assert broken["record"] == {
        "shop": "north", "day": "2026-01-03", "pieces": 1, "price": "2.50", "weight": 0.25
    }  # fmt: skip
    assert told(tasks, [said({"shop": {"anything": True}})])[0] == [
        ("south", 1, 1, Decimal("2.50"), Decimal("2.50"), 0.25, 1, [1])
    ]


def test_part_of_a_key_closes_groups(tmp_path: Path) -> None:
    """A punctuation on one of its columns; one that restricts others closes nothing, and ends here."""
    tasks = groups(tmp_path, ("shop", "day"))
    over = {"day": {"between": {"to": "2026-01-02"}}}

    rows = [sale("north", 1), sale("south", 2), sale("north", 3)]
    assert told(tasks, [*rows, said({"shop": {"equals": "north"}, "pieces": {"equals": 1}})]) == ([], [])
    found, texts = told(tasks, [said(over)])

    assert [group[:2] for group in found] == [("north", date(2026, 1, 1)), ("south", date(2026, 1, 2))]
    assert texts == [over]


ORDERS: list[tuple[tuple[str, ...], int, int]] = [
    (("day", "price"), 2, 4),
    (("price",), 3, 4),
    (("shop",), 2, 7),  # all alike, so the values decide
    (("price", "size"), 3, 2),
]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("ordered_by", "first", "last"), ORDERS)
def test_first_and_last_go_by_the_columns_that_are_named(
    tmp_path: Path, ordered_by: tuple[str, ...], first: int, last: int, reverse: bool
) -> None:
    """Of any type of a key, nulls first, then by value, in whatever batches and order rows come; a null is no
    value."""
    rows = pa.schema([*(SALES.field(name) for name in SALES.names[:4]), ("size", pa.string())])
    measures = {"opened": {"first": "pieces"}, "ended": {"last": "pieces"}}
    tasks = GroupTasks(rows, Renaming.none(rows), tmp_path, ("shop",), measures, ordered_by)
    sold = [
        (1, 2, "9.00", "é"),
        (2, 3, None, "c"),
        (1, None, None, "a"),
        (2, 7, "8.00", "a"),
        (2, 4, "9.00", "b"),
    ]
    sales = [
        {"shop": "north", "day": date(2026, 1, day), "pieces": pieces, "size": text}
        | {"price": None if price is None else Decimal(price)}
        for day, pieces, price, text in sold
    ]
    for row in reversed(sales) if reverse else sales:
        assert told(tasks, [row]) == ([], [])

    found, _ = told(tasks, [said({"shop": {"equals": "north"}})])

    assert found == [("north", first, last)]


def test_a_running_group_says_which_of_its_rows_is_the_last(tmp_path: Path) -> None:
    """By the number of the batch, also over a restart; a batch without rows of it says nothing of it."""
    rows = pa.schema(list(SALES)[:-1])
    measures = {"sales": "count", "pieces": {"sum": "pieces"}}
    tasks = GroupTasks(rows, Renaming.none(rows), tmp_path, ("shop",), measures, running=True)
    north = {"shop": {"equals": "north"}}

    assert told(tasks, [sale("north", 1, 2), sale("north", 1, 3)]) == ([("north", 2, 5, False, 1)], [])
    assert told(tasks, [sale("south", 1, 7)]) == ([("south", 1, 7, False, 2)], [])
    assert told(tasks, [sale("north", 2, 4), sale("south", 1), said(north)]) == (
        [("north", 3, 9, True, 3), ("south", 2, 8, False, 3)],
        [north],
    )


@pytest.mark.parametrize(("by", "measures"), [(["shop"], {"batch": "count"}), (["final"], {"n": "count"})])
def test_columns_of_running_groups_are_theirs(by: list[str], measures: dict[str, Any]) -> None:
    rows = SALES.append(pa.field("final", pa.bool_()))

    declared_groups(by, measures, [], rows)
    with pytest.raises(ConfigError, match=r"running groups have a column (batch|final) of their own"):
        declared_groups(by, measures, [], rows, running=True)


def test_bad_text_and_nulls(tmp_path: Path) -> None:
    """A dead letter; and a violation, since a null is no key."""
    tasks = groups(tmp_path)

    (letter,) = told(tasks, [said("{"), sale("north", 1)])[1]
    assert (letter["$dead_letter"]["frame"], letter["$dead_letter"]["value"]) == ("frame", "{")
    (violation,) = told(tasks, [sale(None, 1)])[1]
    assert (violation["$violation"]["reason"], violation["$violation"]["record"]["shop"]) == ("null", None)


def test_a_key_that_is_never_null_is_so_in_control_rows() -> None:
    """Spark takes a schema at its word."""
    rows = pa.schema([pa.field("shop", pa.string(), nullable=False)])

    grouping = Grouping.of(rows, declared_groups(["shop"], {"n": "count"}, [], rows), [], 2, running=False)

    assert all(field.nullable for field in grouping.schema)


@pytest.mark.parametrize(
    ("by", "measures", "ordered_by", "complaint"),
    [
        (["house"], MEASURES, [], "aggregate: the frame has no column house"),
        (["shop"], {"n": {"sum": "rooms"}}, [], "aggregate: the frame has no column rooms"),
        (["shop"], {"n": "most"}, [], "aggregate: n: .*write `count`, or {f: "),
        (["shop"], {"n": {"first": "price"}}, [], "n: rows of a frame have no order; .*ordered_by='at'"),
        (["shop"], {"n": {"min": "price"}}, ["day"], "ordered_by: no measure is first or last"),
        (["shop"], {"n": {"last": "price"}}, ["at"], "aggregate: the frame has no column at"),
        (["shop"], {"n": {"last": "price"}}, ["day", "weight"], "ordered_by: column weight is double; cast"),
        (["shop"], {}, [], "aggregate: it has no measure; "),
        (["shop"], {"shop": "count"}, [], "aggregate: shop is of the key"),
        (["weight"], MEASURES, [], "aggregate: column weight is double, which is no key"),
        (["shop"], {"n": {"count_distinct": "photo"}}, [], "aggregate: column photo is binary; cast it"),
    ],
)
def test_groups_that_cannot_be_are_refused(
    by: list[str], measures: dict[str, Any], ordered_by: list[str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        declared_groups(by, measures, ordered_by, SALES)
