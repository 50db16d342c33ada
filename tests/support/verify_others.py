"""Relations beside the sellers: some lack keys, some have keys twice, some are asked by what others have."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st

# The columns of each relation; the first one is its key, unless `KEYS` has several.
COLUMNS = {
    "ranks": {"seller_id": "long", "rank": "string"},
    "badges": {"seller_id": "long", "rank": "string"},
    "titles": {"rank": "string", "title": "string"},
    "colours": {"title": "string", "colour": "long"},
    "tariffs": {"tip": "decimal(6,2)", "due": "date", "rate": "double"},
}
KEYS = {name: [next(iter(columns))] for name, columns in COLUMNS.items()} | {"tariffs": ["tip", "due"]}
OTHERS: dict[str, list[tuple[Any, ...]]] = {
    "ranks": [(1, "first"), (3, None), (4, "last")],
    "badges": [(1, "new"), (1, "odd"), (1, "old"), (2, "new"), (4, "old"), (4, "old")],
    "titles": [
        ("first", "gold"),
        ("new", "tin"),
        ("old", None),
        ("Ann", "gold"),
        ("Bo", "lead"),
        ("v3", "tin"),
    ],
    "colours": [("gold", 1), ("gold", 2), ("tin", 3), ("brass", 4)],
    "tariffs": [
        (Decimal("1.5"), date(2026, 1, 11), 0.25),
        (Decimal("1.5"), date(2026, 1, 12), -1.0),
        (Decimal("3.5"), date(2026, 1, 13), None),
        (Decimal(0), date(1, 1, 1), -0.0),
        (Decimal("9999.99"), date(1969, 12, 31), 1e308),
        (Decimal("-9999.99"), date(9999, 12, 31), 0.1),
    ],
}
_ALIKE = {
    "ranks": "many_to_one",
    "badges": "many_to_many",
    "titles": "many_to_one",
    "colours": "many_to_many",
}
# Pages of a relation are in the order of bytes, which PostgreSQL has in the collation "C".
_STRING = sa.String(40).with_variant(sa.String(40, collation="C"), "postgresql")
_TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    "long": sa.BigInteger(),
    "string": _STRING,
    "decimal(6,2)": sa.Numeric(6, 2),
    "date": sa.Date(),
    "double": sa.Double(),
}


def lookup_steps(
    sellers: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the lookup steps of a pipeline file, and the last step of each stream.

    The step `known` asks the sellers. `others` are further lookups, by the names of their relations. Each
    lookup has its `stream` beside its fields.
    """
    ends = {"items": "items", "bids": "bids"}
    steps: dict[str, Any] = {}
    asking = {"known": {"relation": "sellers", **sellers}}
    asking |= {f"of_{name}": {"relation": name, **fields} for name, fields in others.items()}
    for step, fields in asking.items():
        lookup = {"key": "seller_id", **fields}
        stream = lookup.pop("stream")
        steps[step] = {"from": ends[stream], "lookup": lookup}
        ends[stream] = step
    return steps, ends


def seed_others(url: str) -> None:
    """Make their tables."""
    meta, engine = sa.MetaData(), sa.create_engine(url)
    for name, rows in OTHERS.items():
        columns = [sa.Column(column, _TYPES[kind]) for column, kind in COLUMNS[name].items()]
        table = sa.Table(name, meta, *columns, sa.Index(f"by_key_of_{name}", *KEYS[name]))
        meta.create_all(engine)
        with engine.begin() as connection:
            connection.execute(table.insert(), [dict(zip(COLUMNS[name], row, strict=True)) for row in rows])
    engine.dispose()


@st.composite
def other_lookups(draw: st.DrawFn, misses: st.SearchStrategy[Any], sellers: str) -> dict[str, dict[str, Any]]:
    """Some of them, on either stream, in any order in which each is asked by what is there.

    Args:
        misses: what becomes of rows without a match.
        sellers: the stream that is looked up in the sellers before all others.
    """
    asking = {
        name: {"stream": draw(st.sampled_from(["items", "bids"]))}
        for name in draw(st.lists(st.sampled_from(["ranks", "badges"]), unique=True))
    }
    streams = {"sellers": sellers, **{name: asked["stream"] for name, asked in asking.items()}}
    if draw(st.booleans()):
        origin = draw(st.sampled_from(list(streams)))
        key = f"{origin}.{'name' if origin == 'sellers' else 'rank'}"
        asking = draw(_placed(asking, "titles", {"stream": streams[origin], "key": key}, origin))
        if draw(st.booleans()):
            by = {"stream": streams[origin], "key": draw(st.sampled_from(["titles.title", "title"]))}
            asking = draw(_placed(asking, "colours", by, "titles"))
    return {
        name: {
            **asked,
            "cardinality": _ALIKE[name],
            "miss": draw(misses),
            "strategy": draw(st.sampled_from(["hybrid", "batched"])),
            "time_per_batch": draw(st.sampled_from([None, "0ms"])),
            "memory": draw(st.sampled_from([1, 64_000_000])),
            "cache": draw(st.sampled_from([None, {"memory": 300}])),
        }
        for name, asked in asking.items()
    }


@st.composite
def _placed(
    draw: st.DrawFn, asking: Mapping[str, Any], name: str, asked: Mapping[str, Any], behind: str
) -> dict[str, Any]:
    """Lookups with one more, somewhere behind the one by which it asks."""
    names = list(asking)
    first = names.index(behind) + 1 if behind in names else 0
    names.insert(draw(st.integers(first, len(names))), name)
    return {each: asking.get(each, asked) for each in names}
