"""Two joins in a row, as docs/frames.md has them, in Spark: punctuations in, punctuations out."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import SparkSession

from support.delta_batches import rows_by_batch

DOCUMENT = Path(__file__).parents[2] / "docs/frames.md"
# Results and control texts.
Batch = tuple[Counter[tuple[Any, ...]], list[Any]]
ORDERS, BATCHES = 24, 5
COLUMNS = {"orders": "customer", "payments": "amount", "shipments": "carrier"}
# The two joins of the page in one query.
EXPECTED = """
    SELECT o.order_id, o.customer, p.amount, s.carrier
    FROM (
        orders o JOIN payments p
        ON o.order_id = p.order_id AND abs(epoch(o."at") - epoch(p."at")) <= 3600 AND p.amount > 0
    )
    LEFT JOIN shipments s
    ON s.order_id = o.order_id AND abs(epoch(s."at") - epoch(greatest(o."at", p."at"))) <= 7 * 86400
"""


class Shop:
    """Orders, payments and shipments, a file of each per batch, with rows and control rows mixed.

    An order's rows are in one batch or several. Each stream closes the first half of the orders by name, each
    with its last rows or later, and all of them by a pattern in the last batch.
    """

    def __init__(self, base: Path, seed: int) -> None:
        self._base, self._random = base, random.Random(seed)
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in COLUMNS}
        self._batches = {name: self._drawn(name) for name in COLUMNS}

    def _drawn(self, name: str) -> list[list[dict[str, Any]]]:
        batches: list[list[dict[str, Any]]] = [[] for _ in range(BATCHES)]
        for order in range(ORDERS):
            places = sorted(self._random.choices(range(BATCHES - 1), k=self._random.randint(0, 3)))
            for place in places:
                minute = 30 * place + self._random.randint(0, 29)
                at = f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"
                value: Any = f"{self._random.randint(-99, 999)}.50" if name == "payments" else str(minute)
                row = {"order_id": order, COLUMNS[name]: value, "at": at}
                batches[place].append(row)
                self.rows[name].append(row)
            closing = self._random.randint(max(places, default=0), BATCHES - 2)
            if order < ORDERS // 2:
                batches[closing].append(_over({"order_id": {"equals": order}}))
        batches[-1].append(_over({"order_id": {"between": {"to": ORDERS}}}))
        for batch in batches:
            self._random.shuffle(batch)
        return batches

    def publish(self, number: int, more: dict[str, list[dict[str, Any]]]) -> None:
        for name, batches in self._batches.items():
            (self._base / name).mkdir(exist_ok=True)
            rows = [*batches[number], *more.get(name, [])]
            lines = "\n".join(map(json.dumps, rows))
            (self._base / name / f"{number}.json").write_text(lines)

    def expected(self) -> Counter[tuple[Any, ...]]:
        database = duckdb.connect()
        for name, value in COLUMNS.items():
            kind = "DECIMAL(18, 2)" if name == "payments" else "VARCHAR"
            columns = f'order_id BIGINT, {value} {kind}, "at" TIMESTAMPTZ'
            database.execute(f"CREATE TABLE {name} ({columns})")
            rows = [tuple(row.values()) for row in self.rows[name]]
            database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)  # noqa: S608  # our names
        return Counter(database.execute(EXPECTED).fetchall())


def _over(patterns: dict[str, Any] | str) -> dict[str, Any]:
    return {"over": patterns if isinstance(patterns, str) else json.dumps(patterns)}


def run(spark: SparkSession, base: Path) -> None:
    """Run the code of the page, from its source to the end of the query."""
    _, code = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    exec(compile(code, str(DOCUMENT), "exec"), {"spark": spark, "base": str(base)})  # noqa: S102  # our page


def told(base: Path) -> list[Batch]:
    """Results and control texts of each batch."""
    shipped, over, wrong = (rows_by_batch(base / name) for name in ("shipped", "over", "wrong"))
    names = ("left_order_id", "left_customer", "left_amount", "right_carrier", "right_order_id")
    found = []
    for number in range(BATCHES):
        results = Counter(tuple(row[name] for name in names) for row in shipped.get(number, []))
        texts = [json.loads(row["punctuation"]) for row in over.get(number, [])]
        found.append((results, texts + [{"$dead_letter": row} for row in wrong.get(number, [])]))
    return found


def test_two_joins_in_a_row(spark: SparkSession, tmp_path: Path) -> None:
    """Restarted between batches, of which one is repeated: the results are DuckDB's, none follows a
    punctuation that matches it, and all that is over is announced, once. What is wrong comes through both
    joins."""
    shop = Shop(tmp_path, seed=11)
    for number in range(BATCHES):
        shop.publish(number, {"payments": [_over("{")]} if number == 1 else {})
        run(spark, tmp_path)
        if number == 2:
            before = told(tmp_path)
            for file in (tmp_path / "checkpoint/spark/commits").glob("*2*"):
                file.unlink()
            run(spark, tmp_path)
            assert told(tmp_path) == before
    _check(shop, told(tmp_path))


def _check(shop: Shop, found: list[Batch]) -> None:
    results = [Counter({row[:4]: count for row, count in rows.items()}) for rows, _ in found]
    assert sum(results, Counter()) == shop.expected()
    texts = [text for _, texts in found for text in texts]
    wrong = [text for text in texts if next(iter(text)).startswith("$")]
    assert [(each["$dead_letter"]["frame"], each["$dead_letter"]["value"]) for each in wrong] == [
        ("right", b"{")
    ]
    assert _following(found) == []
    columns = ("left_order_id", "right_order_id")
    patterns = [{"equals": order} for order in range(ORDERS // 2)] + [{"between": {"to": ORDERS}}]
    assert Counter(json.dumps(text) for text in texts if text not in wrong) == Counter(
        json.dumps({column: pattern}) for column in columns for pattern in patterns
    )


def _following(found: list[Batch]) -> list[tuple[int, Any, Any]]:
    """Results of a batch that an output punctuation of an earlier one matches."""
    places = {"left_order_id": 0, "right_order_id": 4}
    closed: list[tuple[int, Any]] = []
    wrong = []
    for number, (rows, texts) in enumerate(found):
        wrong += [
            (number, row, (place, order)) for row in rows for place, order in closed if row[place] == order
        ]
        closed += [
            (places[name], pattern["equals"])
            for text in texts
            for name, pattern in text.items()
            if "equals" in pattern
        ]
    return wrong
