"""Random pipelines in which the rows of a join go on into another join, records for them, and their results.

Orders are paid, and what is paid meets the tickets of its customers, or of whatever else is the second key.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from endmark.verify.session import Session, fill
from support.bucket_tasks import Located, Tables
from support.sizes import PARTITIONS, speakers
from support.verify_recompute import SELLERS
from support.verify_world import Record, instant

NAMES = ("orders", "payments", "tickets")
COLUMNS = {
    "orders": ("order_id", "customer_id"),
    "payments": ("order_id", "payer_id"),
    "tickets": ("customer_id", "payer_id", "order_id"),
}
COUNTS = {"order_id": 4, "customer_id": 3, "payer_id": 2}  # the values of each column
# Where each column of the second key comes from, in what is paid.
ORIGINS = {"order_id": "orders", "customer_id": "orders", "payer_id": "payments"}
SECOND_KEYS = (["customer_id"], ["customer_id"], ["payer_id"], ["order_id"], ["customer_id", "payer_id"])
LOOKUPS = {"orders": "customer_id", "paid": "orders.customer_id", "tickets": "customer_id"}
_TABLE = {"seller_id": "long", "name": "string", "rating": "double"}


def two_stages(
    *,
    on: Sequence[str] = ("customer_id",),
    paid: Mapping[str, Any] | None = None,
    served: Mapping[str, Any] | None = None,
    promised: Mapping[str, Collection[str]] | None = None,
    nullable: bool = False,
    lookup: tuple[str, Mapping[str, Any]] | None = None,
    by: Sequence[str] | None = None,
    flipped: bool = False,
    lateness: Mapping[str, int] | None = None,
    **document: Any,
) -> Pipeline:
    """A pipeline of two joins.

    Args:
        on: the second key.
        paid, served: further fields of the joins.
        promised: the columns of `punctuated_on`, by stream.
        nullable: whether an order may have no customer.
        lookup: the stream or join that is looked up, and further fields of the lookup.
        by: the columns of the groups; `None` without groups.
        flipped: whether the tickets are the first input.
        lateness: in seconds, by stream.
        document: further fields of the pipeline file.
    """
    known = "known" if lookup is not None and lookup[0] == "paid" else "paid"
    ends = {name: name for name in NAMES}
    steps: dict[str, Any] = {}
    if lookup is not None:
        asking, fields = lookup
        asks = {"relation": "sellers", "key": LOOKUPS[asking], **fields}
        steps["known"] = {"from": asking, "lookup": asks}
        if asking in ends:
            ends[asking] = "known"
    steps["paid"] = {"join": [ends["orders"], ends["payments"]], "on": "order_id", **(paid or {})}
    inputs = [known, ends["tickets"]]
    steps["served"] = {"join": inputs[::-1] if flipped else inputs, "on": list(on), **(served or {})}
    tables: dict[str, Any] = {"served": {}, "paid": {}}
    if by is not None:
        steps["grouped"] = {"from": "served", "aggregate": {"by": list(by), "measures": {"n": "count"}}}
        tables |= {"grouped": {"mode": "changes"}, "final": {"from": "grouped"}}
    relations = {"sellers": {"url": "sqlite://", "table": "sellers", "key": "seller_id", "columns": _TABLE}}
    return Pipeline.model_validate(
        {
            "name": "stages",
            "streams": {
                name: {
                    "topic": f"all.{name}",
                    "columns": {
                        column: "long?"
                        if nullable and (name, column) == ("orders", "customer_id")
                        else "long"
                        for column in COLUMNS[name]
                    }
                    | {"at": "timestamp"},
                    "event_time": {
                        "column": "at",
                        "ahead": None,
                        "lateness": f"{(lateness or {}).get(name, 0)}s",
                    },
                    "punctuated_on": list((promised or {}).get(name, ())),
                }
                for name in NAMES
            },
            "relations": relations if lookup is not None else {},
            "steps": steps,
            "tables": tables,
            "unbounded_state": "allow",
            **document,
        }
    )


def row(name: str, seconds: float, partition: int = 0, **values: int | None) -> Record:
    """A row of a stream; columns that are left out are 0."""
    value = dict.fromkeys(COLUMNS[name], 0) | values | {"at": instant(seconds)}
    return Record(f"all.{name}", partition, json.dumps(value).encode())


def told(name: str, patterns: Mapping[str, Any], partition: int = 0) -> Record:
    """A punctuation of a stream."""
    return Record(f"all.{name}", partition, json.dumps({"$punctuation": patterns}).encode())


@st.composite
def joins(draw: st.DrawFn, kinds: Sequence[JoinType], windows: Sequence[str]) -> dict[str, Any]:
    """The fields of a join, given the names of its inputs."""
    preset = draw(st.sampled_from([*[Preset.AUTO] * 12, *Preset]))
    able = PRESETS[preset]
    seconds = st.sampled_from([0, 2, 5, 9, None])
    return {
        "type": draw(st.sampled_from(kinds)),
        "preset": preset,
        "purge_every": draw(st.integers(1, 4)) if able.batch else 1,
        "memory": draw(st.sampled_from([None, None, 1, 2000])) if able.spill else None,
        "window": {name: draw(seconds) for name in windows} if able.window else None,
    }


@st.composite
def two_stage_pipelines(draw: st.DrawFn) -> Pipeline:
    """Two joins of any type, presets and windows; some with a lookup somewhere, and with groups."""
    on = draw(st.sampled_from(SECOND_KEYS))
    nullable = draw(st.integers(0, 3)) == 0
    lookup = None
    if draw(st.integers(0, 2)) == 0:
        fields = {
            "miss": draw(st.sampled_from(["drop", "nulls"])),
            "time_per_batch": draw(st.sampled_from([None, "0ms"])),
            "strategy": draw(st.sampled_from(["hybrid", "mesh", "auto"])),
        }
        lookup = (draw(st.sampled_from(list(LOOKUPS))), fields)
    ends = {name: name for name in (*NAMES, "paid")}
    if lookup is not None:
        ends[lookup[0]] = "known"
    # A semi join has no columns of payments.
    kinds = [JoinType.INNER, JoinType.LEFT] + ([] if "payer_id" in on else [JoinType.SEMI])
    paid = draw(joins(kinds, [ends["orders"], ends["payments"]]))
    served = draw(joins(list(JoinType), [ends["paid"], ends["tickets"]]))
    flipped = draw(st.booleans())
    shows_orders = served["type"] is not JoinType.SEMI or not flipped
    columns = [[*on], [*on], [on[0]]]
    if shows_orders and on != ["order_id"]:
        columns.append(["orders.order_id"])
    promised = {
        "orders": ["order_id", *([] if nullable else ["customer_id"])],
        "payments": ["order_id", "payer_id"],
        "tickets": on,
    }
    return two_stages(
        on=on,
        paid=paid,
        served=served,
        promised={name: draw(st.sampled_from([*[each] * 5, []])) for name, each in promised.items()},
        nullable=nullable,
        lookup=lookup,
        by=draw(st.sampled_from([None, *columns])),
        flipped=flipped,
        lateness={name: draw(st.integers(0, 3)) for name in NAMES},
    )


def partition_counts() -> st.SearchStrategy[dict[str, int]]:
    """The number of partitions of each topic."""
    return st.fixed_dictionaries({f"all.{name}": PARTITIONS for name in NAMES})


@st.composite
def two_stage_histories(draw: st.DrawFn, pipeline: Pipeline, partitions: Mapping[str, int]) -> list[Record]:
    """Rows and punctuations of the three streams. A key has its own partition."""
    pace = draw(st.sampled_from([0.25, 0.5, 1]))
    size = draw(st.integers(5, 60))
    nullable = pipeline.streams["orders"].columns["customer_id"].nullable
    records: list[Record] = []
    for place in range(size):
        name = draw(st.sampled_from(NAMES))
        count, declared = partitions[f"all.{name}"], pipeline.streams[name].punctuated_on
        values: dict[str, int | None] = {
            column: draw(st.integers(0, COUNTS[column] - 1)) for column in COLUMNS[name]
        }
        home = sum(int(values[column] or 0) for column in pipeline.stage_of(name).key) % count
        kind = draw(st.sampled_from([*["row"] * 12, "close", "wide", "heartbeat", "range"]))
        patterns: dict[str, Any] | None = None
        homes: Sequence[int] = [home]
        match kind:
            case "close" if declared:
                patterns = {column: {"equals": values[column]} for column in pipeline.stage_of(name).key}
            case "wide" if declared:
                column = draw(st.sampled_from(declared))
                patterns, homes = {column: {"equals": values[column]}}, draw(speakers(count))
                if [column] == list(pipeline.stage_of(name).key):
                    homes = [home]
            case "range" if declared:
                column = draw(st.sampled_from(declared))
                ends = {"to": values[column]} if draw(st.integers(0, 5)) else {}
                patterns, homes = {column: {"between": ends}}, draw(speakers(count))
            case "heartbeat":
                patterns, homes = {"at": {"between": {"to": instant(place * pace)}}}, draw(speakers(count))
        if patterns is not None:
            records += [told(name, patterns, each) for each in homes]
            continue
        if name == "orders" and nullable and draw(st.integers(0, 3)) == 0:
            values["customer_id"] = None
        seconds = place * pace + draw(st.sampled_from([*[0] * 8, -3, -1, 1, 2, 6]))
        records.append(row(name, seconds, home, **values))
    return records


@st.composite
def promised_histories(draw: st.DrawFn, partitions: Mapping[str, int]) -> list[Record]:
    """Orders of few customers, who are promised in all partitions while some orders are not paid for yet."""
    records: list[Record] = []
    if draw(st.integers(0, 5)) == 0:  # payments end before their first row
        whole = {"order_id": {"anything": True}}
        records += [told("payments", whole, home) for home in range(partitions["all.payments"])]
    for second in range(draw(st.integers(5, 30))):
        order, customer = draw(st.integers(0, 5)), draw(st.integers(0, 2))
        values = {"order_id": order, "customer_id": customer, "payer_id": customer}
        kind = draw(st.sampled_from(["orders", "orders", "payments", "payments", "tickets", "paid", "over"]))
        if kind in NAMES:
            home = values["customer_id" if kind == "tickets" else "order_id"] % partitions[f"all.{kind}"]
            own = {column: values[column] for column in COLUMNS[kind]}
            records.append(row(kind, second, home, **own))
        elif kind == "paid":
            home = order % partitions["all.payments"]
            records.append(told("payments", {"order_id": {"equals": order}}, home))
        else:
            name, column = draw(st.sampled_from([("orders", "customer_id"), ("payments", "payer_id")]))
            pattern: dict[str, Any] = draw(
                st.sampled_from([{column: {"equals": customer}}] * 6 + [{"order_id": {"anything": True}}])
            )
            if draw(st.integers(0, 3)) == 0 and "order_id" not in pattern:
                pattern |= {"order_id": {"between": {"to": order}}}
            records += [told(name, pattern, home) for home in range(partitions[f"all.{name}"])]
    return records


def ends(pipeline: Pipeline, partitions: Mapping[str, int]) -> list[Record]:
    """The ends of all streams that can promise it, in all partitions."""
    return [
        told(name, {declared[0]: {"anything": True}}, partition)
        for name in NAMES
        if (declared := pipeline.streams[name].punctuated_on)
        for partition in range(partitions[f"all.{name}"])
    ]


def completes(pipeline: Pipeline) -> bool:
    """Return whether all results are out once the streams have ended: rows without a partner wait for it."""
    first, second = (stage.join for stage in pipeline.stages)
    assert first is not None
    assert second is not None
    waiting = {JoinType.LEFT, JoinType.RIGHT, JoinType.FULL}
    if first.type not in waiting and second.type not in waiting:
        return True
    early = PRESETS[first.preset].propagate is Propagation.EARLY
    return early and all(pipeline.streams[name].punctuated_on for name in NAMES)


class Definition:
    """The results of a pipeline of two joins in SQL, from the rows that broke no promise."""

    def __init__(
        self, session: Session, pipeline: Pipeline, located: Sequence[Located], found: Tables
    ) -> None:
        self._session, self._pipeline = session, pipeline
        broken = {(each["topic"], each["partition"], each["offset"]) for each in found["violations"]}
        for name in NAMES:
            rows = [
                {f"{name}_{column}": each for column, each in json.loads(value).items()}
                | {f"{name}_kafka_partition": partition, f"{name}_kafka_offset": offset}
                for topic, partition, offset, value, *_ in located
                if topic == f"all.{name}" and value is not None and b"$punctuation" not in value
                if (topic, partition, offset) not in broken
            ]
            kinds = {f"{name}_{column}": pa.int64() for column in COLUMNS[name]} | {f"{name}_at": pa.string()}
            kinds |= {f"{name}_kafka_partition": pa.int64(), f"{name}_kafka_offset": pa.int64()}
            session.run_on(
                pa.Table.from_pylist(rows, pa.schema(kinds)),
                "CREATE TABLE $of AS SELECT * REPLACE (CAST($at AS TIMESTAMPTZ) AS $at) FROM arriving",
                of=name,
                at=f"{name}_at",
            )
        sellers = pa.table(dict(zip(_TABLE, zip(*SELLERS, strict=True), strict=True)))
        session.run_on(sellers, "CREATE TABLE sellers AS SELECT * FROM arriving")
        self._session.run("CREATE VIEW paid AS SELECT * FROM ($joined)", joined=self._paid())

    def results(self) -> list[dict[str, Any]]:
        """The results."""
        stage = self._pipeline.last_stage
        left, right = stage.inputs
        columns = list(self._pipeline.result_columns())
        return self._session.run(
            "SELECT $columns FROM ($joined)", columns=", ".join(columns), joined=self._joined(left, right, 1)
        )

    def paid(self) -> list[dict[str, Any]]:
        """The rows of the first join."""
        columns = self._pipeline.outputs.columns_of("step:paid")
        return self._session.run("SELECT $columns FROM paid", columns=", ".join(columns))

    def _key(self, given: str) -> list[str]:
        of = self._pipeline.key
        return [f"{ORIGINS[name] if given == 'paid' else given}_{name}" for name in of]

    def _paid(self) -> str:
        return self._joined("orders", "payments", 0)

    def _looked_up(self, given: str) -> str:
        """The rows of an input with what is looked up for them; those without a second key left out."""
        there = [f"{column} IS NOT NULL" for column in self._key(given)] if given == "paid" else []
        rows = fill("SELECT * FROM $given WHERE $there", given=given, there=" AND ".join(there) or "true")
        for lookup in self._pipeline.lookups_of(given):
            kind = "JOIN" if lookup.miss == "drop" else "LEFT JOIN"
            asked = LOOKUPS[given].rpartition(".")[2]
            by = f"{ORIGINS[asked] if given == 'paid' else given}_{asked}"
            rows = fill(
                "SELECT r.*, s.name AS sellers_name, s.rating AS sellers_rating "
                "FROM ($rows) r $kind sellers s ON s.seller_id = r.$by",
                rows=rows,
                kind=kind,
                by=by,
            )
        return rows

    def _joined(self, left: str, right: str, number: int) -> str:
        stage = self._pipeline.stages[number]
        assert stage.join is not None
        keys = [["orders_order_id"], ["payments_order_id"]]
        if number:
            keys = [self._key(left), self._key(right)]
        times = {name: f"{'orders' if name == 'paid' else name}_at" for name in (left, right)}
        conditions = [f"a.{mine} = b.{theirs}" for mine, theirs in zip(*keys, strict=True)]
        for name, earlier, later in (
            (left, f"a.{times[left]}", f"b.{times[right]}"),
            (right, f"b.{times[right]}", f"a.{times[left]}"),
        ):
            if (window := stage.window_of(name)) is not None:
                seconds = window.total_seconds()
                conditions.append(f"({later} <= {earlier} + INTERVAL {seconds:.0f} SECOND)")
        kind = "SEMI" if stage.join.type is JoinType.SEMI else stage.join.type.upper()
        return fill(
            "SELECT * FROM ($left) a $kind JOIN ($right) b ON $met",
            left=self._looked_up(left),
            right=self._looked_up(right),
            kind=kind,
            met=" AND ".join(conditions),
        )
