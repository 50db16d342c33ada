"""Random pipelines that join three or four streams on one key, and random records for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from endmark.operators.lookup.strategies import STRATEGIES
from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline import Pipeline
from endmark.wire.control import Turn
from support.sizes import PARTITIONS, speakers
from support.verify_histories import declarations, misses, stamp
from support.verify_keys import KeyKind
from support.verify_others import COLUMNS
from support.verify_world import Record, close, instant, promise, promises, wider_promises

NAMES = ("orders", "payments", "shipments", "returns")
CONDITIONS = [
    *[None] * 5,
    "orders_amount >= 0.1 AND orders_seller_id <> payments_seller_id",
    "shipments_amount < 1 OR payments_SELLER_id = 1 -- a comment",
    "payments_amount > -9 OR orders_seller_id + 9223372036854775806 > 0",  # which fails on sellers above 1
]
MEASURES: dict[str, Any] = {
    "rows": "count",
    "paid": {"sum": "payments.amount"},
    "sellers": {"sorted": "orders.seller_id"},
    "newest": {"max": "shipments.sent_at"},
    "last": {"last": "payments.amount"},
    "names": {"count_distinct": "sellers.name"},
}
AMOUNTS = [0.1, 1e17, -3.5]  # whose sum hangs on their order, unless it is exact
TURNS = [
    Turn("steps.known.lookup.strategy", "mesh", "Ann"),
    Turn("steps.known.lookup.time_per_batch", "0s", "Ann"),
    Turn("steps.known.lookup.memory", 1, "Ann"),
    Turn("steps.joined.purge_every", 3, "Ann"),  # which some presets refuse, and the next
    Turn("steps.joined.memory", 1, "Ann"),
    Turn("steps.joined.memory", None, "Ann"),
]


def stream(keys: KeyKind, name: str, *, wider: bool = False, **fields: Any) -> dict[str, Any]:
    """A stream of the pipeline file; `fields` replace its usual ones."""
    columns = keys.types | {"seller_id": "long", "amount": "double", "sent_at": "timestamp"}
    usual = {
        "topic": f"all.{name}",
        "columns": columns,
        "event_time": {"column": "sent_at", "ahead": "1h"},
        "punctuated_on": [*keys.types, *(["seller_id"] if wider else [])],
    }
    return usual | fields


def joined(
    keys: KeyKind,
    streams: Mapping[str, Any],
    lookups: Mapping[str, tuple[str, Mapping[str, Any]]],
    join: Mapping[str, Any],
    *,
    windows: Mapping[str, int | None],
    measures: Mapping[str, Any] | None = None,
    running: bool = False,
) -> Pipeline:
    """A pipeline that joins all of some streams.

    Args:
        keys: the kind of the join key.
        streams: the streams of the pipeline file.
        lookups: the stream and the fields of each lookup, by its relation; that of the sellers is `known`.
        join: further fields of the join.
        windows: in seconds, by stream.
        measures: those of the groups; `None` without groups.
        running: whether there is a table of running groups.
    """
    steps: dict[str, Any] = {}
    ends = {name: name for name in streams}
    for relation, (asking, fields) in lookups.items():
        step = "known" if relation == "sellers" else f"of_{relation}"
        steps[step] = {
            "from": ends[asking],
            "lookup": {"relation": relation, "key": "seller_id", **fields},
        }
        ends[asking] = step
    steps["joined"] = {
        "join": list(ends.values()),
        "on": list(keys.types),
        "window": {ends[name]: seconds and f"{seconds}s" for name, seconds in windows.items()},
        **join,
    }
    tables: dict[str, Any] = {"results": {"from": "joined"}}
    if measures is not None:
        steps["by_key"] = {"from": "joined", "aggregate": {"by": list(keys.types), "measures": measures}}
        tables["groups"] = {"from": "by_key"}
        tables |= {"running": {"from": "by_key", "mode": "changes"}} if running else {}
    sellers = {"seller_id": "long", "name": "string", "rating": "double"}
    columns = {"sellers": sellers, **COLUMNS}
    return Pipeline.model_validate(
        {
            "name": "several",
            "streams": streams,
            "relations": {
                name: {"url": "sqlite://", "table": name, "key": "seller_id", "columns": columns[name]}
                for name in lookups
            },
            "steps": steps,
            "tables": tables,
        }
    )


def row(
    name: str,
    key: int,
    seconds: float,
    keys: KeyKind,
    partition: int = 0,
    *,
    seller: int = 1,
    timestamp: int | None = None,
) -> Record:
    """A row of a stream; `timestamp` is Kafka's in milliseconds, by default that of the event time."""
    value = keys.spell(key) | {
        "seller_id": seller,
        "amount": AMOUNTS[seller % 3],
        "sent_at": instant(seconds),
    }
    came = stamp(seconds) if timestamp is None else timestamp
    return Record(f"all.{name}", partition, json.dumps(value).encode(), came)


@st.composite
def several_pipelines(draw: st.DrawFn, preset: Preset, keys: KeyKind, *, idle: bool = False) -> Pipeline:
    """Pipelines of three or four streams, whose partitions may be `idle`, with up to three lookups.

    Where partitions can be idle, progress soon leaves windows, since only then it matters when it did.
    """
    able = PRESETS[preset]
    names = NAMES[: draw(st.sampled_from([3, 3, 4]))]
    window = st.integers(0, 2) if idle else st.sampled_from([None, None, 0, 2, 5, 9])
    lateness = st.integers(0, 1 if idle else 3)
    silent = draw(st.sets(st.sampled_from(names))) if draw(st.booleans()) else set()
    streams = {}
    for name in names:
        fields: dict[str, Any] = draw(declarations(keys)) if draw(st.integers(0, 2)) == 0 else {}
        event_time = {"column": "sent_at", "ahead": "1h", "lateness": f"{draw(lateness)}s"}
        event_time |= {"idle": f"{draw(st.integers(1, 2))}s"} if idle else {}
        if name in silent and len(silent) < len(names):
            fields["punctuated_on"] = draw(st.sampled_from([[], ["sent_at"]]))
        elif draw(st.integers(0, 3)) == 0:
            fields["punctuated_on"] = [*keys.types, "sent_at"]
        streams[name] = stream(keys, name, wider=draw(st.booleans()), **{"event_time": event_time, **fields})
    ask: dict[str, dict[str, Any]] = {
        "sellers": {
            "strategy": draw(st.sampled_from(list(STRATEGIES))),
            "memory": draw(st.sampled_from([1, 500, 64_000_000])),
            "cache": draw(st.sampled_from([None, {"memory": 300}])),
        },
        "ranks": {},
        "badges": {"cardinality": "many_to_many"},
    }
    asked = ["sellers", *draw(st.lists(st.sampled_from(["ranks", "badges"]), unique=True))]
    lookups = {
        relation: (
            draw(st.sampled_from(names)),
            ask[relation]
            | {
                "miss": draw(misses(parking=True)),
                "time_per_batch": draw(st.sampled_from([None, "0ms"])),
            },
        )
        for relation in asked
    }
    waits = able.batch and able.propagate is not Propagation.EARLY
    chosen = draw(st.lists(st.sampled_from(list(MEASURES)), min_size=1, unique=True))
    groups = able.propagate is not Propagation.NEVER and draw(st.integers(0, 3)) > 0
    return joined(
        keys,
        streams,
        lookups,
        {
            "preset": preset,
            "where": draw(st.sampled_from(CONDITIONS)),
            "purge_every": draw(st.integers(1, 4)) if waits else 1,
            "memory": draw(st.sampled_from([None, 1, 2000, 8000])) if able.spill else None,
        },
        windows={name: draw(window) if able.window else None for name in names},
        measures={name: MEASURES[name] for name in chosen} if groups else None,
        running=groups and draw(st.booleans()),
    )


def partition_counts(pipeline: Pipeline) -> st.SearchStrategy[dict[str, int]]:
    """The number of partitions of each topic."""
    return st.fixed_dictionaries({each.topic: PARTITIONS for each in pipeline.streams.values()})


@st.composite
def several_histories(
    draw: st.DrawFn, keys: KeyKind, partitions: Mapping[str, int], pipeline: Pipeline
) -> list[Record]:
    """Records of three keys, since a result needs a row of each stream.

    Few of them are punctuations, and a key has its own partition, unless its stream is scattered.
    """
    pace = draw(st.sampled_from([0.25, 0.25, 0.5]))
    size = draw(st.integers(0, 20)) + draw(st.sampled_from([0, 20, 40]))
    records: list[Record] = []
    for place in range(size):
        name = draw(st.sampled_from(pipeline.sides))
        declared, count = pipeline.streams[name], partitions[f"all.{name}"]
        # Few results come once many keys are closed.
        kinds = [*["row"] * (8 if 2 * place > size else 30), *["close"] * 3, "promise", "wider", "heartbeat"]
        kind = draw(st.sampled_from(kinds))
        once = bool(declared.unique or declared.clustered or declared.ordered) and kind == "row"
        # Rows of a stream that has each key once are spread over more keys.
        key = draw(st.sampled_from([0, 0, 1, 1, 2]))
        key = key if not once or draw(st.booleans()) else place * 5 // size
        scattered = declared.punctuation_scope == "topic"
        home = draw(st.integers(0, count - 1)) if scattered else keys.home(key, count)
        now = place * pace + draw(st.sampled_from([*[0] * 20, -2, -1, 1, 2, 250_000_000_000]))
        match kind:
            case "row":
                seller = draw(st.sampled_from([*[1] * 8, 2, 3, 4]))
                records.append(row(name, key, now, keys, home, seller=seller, timestamp=stamp(place * pace)))
            case "close":
                homes = draw(speakers(count)) if scattered else [home]
                records += [close(name, key, each, keys) for each in homes]
            case "promise":
                records += draw(promises(name, keys, count))
            case "wider":
                records += draw(wider_promises(name, keys, count))
            case "heartbeat":
                told = {"sent_at": {"between": {"to": instant(min(now, place * pace))}}}
                records += [promise(name, told, each) for each in draw(speakers(count))]
    every = draw(st.permutations([(name, key) for name in pipeline.sides for key in range(3)]))
    for name, key in every[: draw(st.sampled_from([len(every), len(every) - 1, 4, 0]))]:
        count = partitions[f"all.{name}"]
        scattered = pipeline.streams[name].punctuation_scope == "topic"
        homes = list(range(count)) if scattered else [keys.home(key, count)]
        records += [close(name, key, home, keys) for home in homes]
    return [
        Record(each.topic, each.partition, each.value, min(each.timestamp, stamp(size))) for each in records
    ]
