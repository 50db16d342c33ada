"""Makes one stream of the members of a union, which are judged and closed by themselves.

A union numbers the partitions of its members in turn: partition 2 of the second of three has number 7.
"""

from __future__ import annotations

from endmark.pipeline import COORDINATES, Pipeline
from endmark.verify.join.sides import key_column
from endmark.verify.session import Session, fill, name, names, text

_JUDGED = """
SELECT $columns, $partition * $of + $place AS $as_partition, $offset AS $as_offset, "#filtered", violation
FROM $judged
"""

_PROMISES = 'SELECT * REPLACE ("partition" * $of + $place AS "partition") FROM $promises'

# A member without a row in some partition holds the progress of the union back.
_PROGRESS = """
INSERT INTO progress
SELECT ?, CASE WHEN bool_and(lowest IS NOT NULL) THEN min(lowest) END,
    CASE WHEN bool_and(highest IS NOT NULL) THEN min(highest) END
FROM progress WHERE stream IN ($members)
"""

_MISSED = """
CREATE VIEW $missed AS
SELECT * REPLACE (part // $of AS part) FROM $of_union WHERE part % $of = $place
"""

_CLOSED = "CREATE TABLE $closed AS $all"


def unite_rows(session: Session, pipeline: Pipeline, union: str) -> None:
    """Make `rows_<union>`, `judged_<union>` and its row of `progress`, from those of its members."""
    members = pipeline.flow.members_of(union)
    parts = []
    for place, member in enumerate(members):
        (partition, offset), own = _coordinates(member), _coordinates(union)
        renamed = [
            f"{name(f'{member}_{column}')} AS {name(f'{union}_{column}')}"
            for column in pipeline.stream_columns(union)
        ]
        parts.append(
            fill(
                _JUDGED,
                columns=", ".join(renamed),
                partition=partition,
                offset=offset,
                as_partition=own[0],
                as_offset=own[1],
                of=str(len(members)),
                place=str(place),
                judged=name(f"judged_{member}"),
            )
        )
    for table in ("judged", "rows"):
        session.run(
            "CREATE TABLE $table AS $all", table=name(f"{table}_{union}"), all=" UNION ALL ".join(parts)
        )
    session.run(_PROGRESS, [union], members=", ".join(map(text, members)))


def part_missed(session: Session, pipeline: Pipeline, union: str) -> None:
    """Make `missed_<member>` and `misses_<member>` of each member of a union from the tables of the union."""
    members = pipeline.flow.members_of(union)
    for place, member in enumerate(members):
        for table in ("missed", "misses"):
            session.run(
                _MISSED,
                missed=name(f"{table}_{member}"),
                of_union=name(f"{table}_{union}"),
                of=str(len(members)),
                place=str(place),
            )


def unite_promises(session: Session, pipeline: Pipeline, union: str, tables: list[str]) -> None:
    """Make tables `<table>_<union>` from those of its members, which have a `partition`."""
    members = pipeline.flow.members_of(union)
    for table in tables:
        parts = [
            fill(_PROMISES, promises=name(f"{table}_{member}"), of=str(len(members)), place=str(place))
            for place, member in enumerate(members)
        ]
        session.run(
            "CREATE TABLE $table AS $all",
            table=name(f"{table}_{union}"),
            all=" UNION ALL BY NAME ".join(parts),
        )


def close_union(session: Session, pipeline: Pipeline, union: str, key: tuple[str, ...]) -> None:
    """Make `closed_<union>`: the keys that all members have closed."""
    columns = names([key_column(column) for column in key])
    parts = [
        fill("SELECT $key FROM $closed", key=columns, closed=name(f"closed_{member}"))
        for member in pipeline.flow.members_of(union)
    ]
    session.run(_CLOSED, closed=name(f"closed_{union}"), all=" INTERSECT ".join(parts))


def _coordinates(stream: str) -> list[str]:
    return [name(f"{stream}_{coordinate}") for coordinate in COORDINATES]
