"""The lookup join of a frame on Arrow batches: matches, misses, nulls and control rows."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from endmark.errors import ConfigError
from endmark.frame import lookup
from endmark.frame.lookup import LookupStage
from endmark.operators.lookup.costs import ReadCosts
from endmark.operators.lookup.join import Source
from endmark.pipeline import Relation
from support.memory_relation import MemoryRelation
from support.relations import Database

ROWS = pa.schema([("item", pa.int64()), ("day", pa.date32()), ("photo", pa.binary())])
RELATION = MemoryRelation(
    pa.record_batch({"id": pa.array([1, 2, 4]), "name": pa.array(["one", "two", "four"])}), ("id",)
)


def stage(how: str, on: tuple[str, ...] = ("item",)) -> LookupStage:
    spec = LookupStage.spec_of(ROWS, RELATION, on, how, "items")
    source = Source(RELATION, RELATION.directory(2), "hybrid", ReadCosts(0.1, 1.0, 1.0, 0.1), unique=True)
    return LookupStage(spec, source, nullcontext, "said", RELATION.directory)


def looked_up(how: str, *batches: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    schema = ROWS.append(pa.field("said", pa.string()))
    given = [pa.RecordBatch.from_pylist(rows, schema) for rows in batches]
    found = list(stage(how)(iter(given)))
    assert {tuple(each.schema.names) for each in found} == {("item", "day", "photo", "items_name", "said")}
    rows = [row for each in found for row in each.to_pylist()]
    return sorted(((row["item"], row["items_name"], row["said"]) for row in rows), key=repr)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_rows_meet_their_match(how: str) -> None:
    """Those without one, as a null is, are left out or stand beside nulls; control rows pass as they are."""
    first: list[dict[str, Any]] = [
        {"item": 1},
        {"item": 3},
        {"item": None},
        {"item": 2, "said": "a text"},
        {"item": 1},
    ]

    found = looked_up(how, first, [], [{"item": 4}, {"said": "{"}])

    missed = [(3, None, None), (None, None, None)] if how == "left" else []
    matched = [(1, "one", None), (1, "one", None), (4, "four", None)]
    assert found == sorted([*matched, *missed, (2, None, "a text"), (None, None, "{")], key=repr)


def test_texts_may_be_large_strings() -> None:
    """A session that sets `arrow.useLargeVarTypes` has them. Spark takes batches of one schema."""
    schema = ROWS.append(pa.field("said", pa.large_string()))
    given = pa.RecordBatch.from_pylist([{"item": 1}, {"said": "a text"}], schema)

    control, rows = stage("inner")(iter([given]))

    assert control.schema == rows.schema
    assert control.column("said").to_pylist() == ["a text"]


def test_a_strategy_that_reads_pages_needs_them(tmp_path: Path) -> None:
    """A view has none, so it is looked up by lists of keys."""
    database = Database(f"sqlite:///{tmp_path / 'r.db'}")
    database.create("base", "id INTEGER PRIMARY KEY, name TEXT", [(1, "one"), (4, "four")])
    database.run("CREATE VIEW items AS SELECT id, name FROM base")
    columns = {"id": "long", "name": "string"}
    spec = {"url": database.url, "table": "items", "key": "id", "columns": columns}
    relation = Relation.model_validate(spec)

    with pytest.raises(ConfigError, match="strategy: 'hybrid' reads pages, but relation 'items' is a view"):
        LookupStage.of(ROWS, "said", relation, ["item"], "inner", "items", "hybrid")
    seen = LookupStage.of(ROWS, "said", relation, ["item"], "inner", "items", "auto")
    schema = pa.schema([*ROWS, ("said", pa.string())])
    given = pa.RecordBatch.from_pylist([{"item": 4}, {"item": 3}], schema)
    assert [row["items_name"] for found in seen(iter([given])) for row in found.to_pylist()] == ["four"]


def test_small_pieces_are_looked_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is read once for what came together, and again for what comes when that is enough."""
    pieces: list[list[dict[str, Any]]] = [[{"item": 1}], [{"item": 1}, {"item": 2}], [{"item": 1}]]
    found = [(1, "one", None)] * 3 + [(2, "two", None)]

    RELATION.ranges.clear()
    assert looked_up("inner", *pieces) == found
    assert len(RELATION.ranges) == 1

    monkeypatch.setattr(lookup, "_ROWS_AT_ONCE", 3)
    assert looked_up("inner", *pieces) == found
    assert len(RELATION.ranges) == 3


def test_pages_are_cut_anew_once_a_relation_outgrows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch has a copy of the stage, since Spark sends it to the tasks anew."""

    def table(rows: int) -> pa.RecordBatch:
        return pa.record_batch({"id": range(rows), "name": [f"n{number}" for number in range(rows)]})

    monkeypatch.setattr(lookup, "_PAGE_ROWS", 2)
    relation = MemoryRelation(table(4), ("id",))
    spec = LookupStage.spec_of(ROWS, relation, ["item"], "inner", "items")
    source = Source(relation, relation.directory(2), "hybrid", ReadCosts(0.1, 1.0, 1.0, 0.1))
    sent = LookupStage(spec, source, nullcontext, "said", relation.directory)
    relation.__init__(table(40), relation.key)  # type: ignore[misc]
    last = pa.RecordBatch.from_pylist([{"item": 39}], ROWS.append(pa.field("said", pa.string())))

    for _ in range(3):
        found = [row["items_name"] for each in replace(sent)(iter([last])) for row in each.to_pylist()]
        assert found == ["n39"]
    assert relation.ranges == [((2,), None), ((38,), None), ((38,), None)]


@pytest.mark.parametrize(
    ("on", "complaint"),
    [
        (("item", "day"), "it names 2 columns, but the relation's key has id"),
        (("day",), r"column 'day' is date32\[day\], the relation's 'id' is int64"),
        (("price",), "no column 'price'; it has item, day, photo"),
    ],
)
def test_columns_that_cannot_be_looked_up_are_refused(on: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        stage("inner", on)
