"""Patterns that follow from a declared order: in each partition, a row closes the keys before its own."""

from __future__ import annotations

from endmark.pipeline import Pipeline
from endmark.verify.join.sides import key_column, stream_names
from endmark.verify.session import Session, name

# All rows count, whatever their fate.
_CLOSING = """
CREATE TABLE $closing AS
FROM $patterns UNION ALL BY NAME
SELECT $partition AS "partition", NULL::$kind[] AS $among, $low AS $low_end, $high AS $high_end,
    $descending AS $low_open, NOT $descending AS $high_open
FROM $rows GROUP BY ALL
"""


def ordering(pipeline: Pipeline, stream: str) -> dict[str, str]:
    """Return the SQL fragments about order for the template of judged rows.

    `reached` is the farthest key of the earlier rows. A row is out of order if `reached` is `beyond` its
    column `ordered`.
    """
    for column, direction in pipeline.streams[stream].ordered.items():
        own = name(f"{stream}_{column}")
        farthest, beyond = ("max", ">") if direction == "ascending" else ("min", "<")
        return {"reached": f"{farthest}({own}) OVER before", "beyond": beyond, "ordered": own}
    first = pipeline.stage_of(stream).key[0]
    own, kind = name(f"{stream}_{first}"), pipeline.stream_columns(stream)[first]
    return {"reached": f"NULL::{kind.duckdb}", "beyond": ">", "ordered": own}


def gather_patterns(session: Session, pipeline: Pipeline, stream: str) -> None:
    """Make `closing_<stream>`: `patterns_<stream>`, and the patterns that the stream's order implies.

    Args:
        session: the session.
        pipeline: the pipeline.
        stream: the name of the stream.
    """
    known, declared = stream_names(pipeline, stream), pipeline.streams[stream]
    if not declared.ordered:
        session.run("CREATE TABLE $closing AS FROM $patterns", **known)
        return
    ((column, direction),) = declared.ordered.items()
    own, ascending = name(f"{stream}_{column}"), direction == "ascending"
    parts = ("among", "low_open", "high_open")
    session.run(
        _CLOSING,
        kind=declared.columns[column].duckdb,
        descending=str(not ascending),
        low="NULL" if ascending else f"min({own})",
        high=f"max({own})" if ascending else "NULL",
        low_end=name(f"{key_column(column)}_low"),
        high_end=name(f"{key_column(column)}_high"),
        **{part: name(f"{key_column(column)}_{part}") for part in parts},
        **known,
    )
