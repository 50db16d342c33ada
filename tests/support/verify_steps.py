"""Random row steps for small worlds: conditions, derived and lost columns, and rules for duplicates."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from endmark.pipeline import Pipeline

WHERE = [
    "seller_id <> 2",
    "seller_id IS NOT NULL -- and so has a seller",
    "seller_id + 9223372036854775804 > 0",  # which fails on sellers above 3
    "CASE WHEN seller_id = 3 THEN CAST('x' AS INTEGER) = 1 ELSE seller_id <> 1 END",
    "date_part('second', $time) <> 3",
]
TICK = "time_bucket(INTERVAL '2 seconds', $time)"  # a derived time, of which histories have several
# Further ones. Some are of another type, and some leave the years 1 to 9999.
TICKS = [
    "date_trunc('second', $time)",
    "time_bucket(INTERVAL '1 day', $time, 'Europe/Berlin')",
    "CAST($time - INTERVAL '1 day' AS DATE)",
    "time_bucket(INTERVAL 1 MONTH, CAST($time AS DATE)) + 1",
    "date_trunc('week', $time) + INTERVAL 3 HOURS",
]
DERIVE = {
    "twice": "seller_id * 2",
    "bounded": "seller_id + 9223372036854775805",  # which fails on sellers above 2
    "finite": "1e308 * seller_id",  # which is infinite for sellers above 1
    "on_day": "CAST($time AS DATE)",
    "soon": "$time + INTERVAL 1 DAY",
    "tick": TICK,
    "word": "CASE WHEN seller_id <> 3 THEN upper('seller ' || seller_id) END",
    "cents": "CAST(seller_id AS DECIMAL(9,2)) * 1.19",
    "source": "'a topic'",
}
# Conditions on a derived column, of a later step.
LATER = {"twice": "twice <> 8", "word": "word LIKE '%1'", "on_day": "on_day IS NOT NULL"}


def with_row_step(pipeline: Pipeline, stream: str, **step: Any) -> Pipeline:
    """The pipeline with one row step, named `first`, on a stream."""
    return with_steps(pipeline, {"first": {"from": stream, **step}})


def with_steps(pipeline: Pipeline, steps: dict[str, Any], **join: Any) -> Pipeline:
    """The pipeline with row steps, one on a stream at most, and with other fields of its join."""
    document = pipeline.model_dump(by_alias=True)
    for name, step in steps.items():
        document = _fed_by(document, step["from"], name)
    joined = {name: step | (join if "join" in step else {}) for name, step in document["steps"].items()}
    return Pipeline.model_validate(document | {"steps": steps | joined})


@st.composite
def with_row_steps(draw: st.DrawFn, pipeline: Pipeline) -> Pipeline:
    """The pipeline with row steps on some of its streams, each of which has one or two."""
    steps: dict[str, Any] = {}
    document = pipeline.model_dump(by_alias=True)
    for stream in pipeline.streams:
        if draw(st.integers(0, 3)) == 0:
            continue
        unused, time = _unused(pipeline, stream), pipeline.streams[stream].event_time.column
        derive = draw(st.lists(st.sampled_from(list(DERIVE)), max_size=3, unique=True))
        first: dict[str, Any] = {
            "where": draw(st.sampled_from([None, *WHERE])),
            "derive": {column: DERIVE[column] for column in derive},
            "drop": draw(st.lists(st.sampled_from(unused), max_size=2, unique=True)) if unused else [],
        }
        last = f"first_{stream}"
        steps[last] = {"from": stream, **_timed(first, time)}
        if draw(st.booleans()):
            later = [LATER[column] for column in derive if column in LATER]
            second: dict[str, Any] = {
                "where": draw(st.sampled_from([None, *WHERE, *later])),
                # A later step may use a derived column, and give a lost column's name anew.
                "derive": dict.fromkeys([*first["drop"], "other"], derive[0] if derive else "seller_id"),
            }
            steps[f"second_{stream}"] = {"from": last, **_timed(second, time)}
            last = f"second_{stream}"
        if not pipeline.streams[stream].unique and draw(st.booleans()):
            others = ["seller_id", time, *(column for column in derive if column != "finite")]
            steps[last] |= {"deduplicate": draw(deduplicates(list(pipeline.key), others))}
        document = _fed_by(document, stream, last)
    return Pipeline.model_validate(document | {"steps": steps | document["steps"]})


@st.composite
def deduplicates(draw: st.DrawFn, key: list[str], others: list[str]) -> dict[str, Any]:
    """A rule for duplicates, whose values have some other columns than the key's in any order."""
    some = draw(st.lists(st.sampled_from(others), max_size=2, unique=True))
    by = draw(st.permutations([*key, *(column for column in some if column not in key)]))
    return {"by": by, "within": draw(st.sampled_from([None, "0s", "1s", "3s"]))}


def _fed_by(document: dict[str, Any], stream: str, step: str) -> dict[str, Any]:
    """The document in which a step feeds what a stream did."""
    steps = {}
    for name, taker in document["steps"].items():
        inputs = taker.get("join") or [taker["from"]]
        fed = [step if given == stream else given for given in inputs]
        steps[name] = taker | ({"join": fed} if "join" in taker else {"from": fed[0]})
        if isinstance(window := taker.get("window"), dict):
            steps[name]["window"] = {step if given == stream else given: w for given, w in window.items()}
    tables = {
        name: table | ({"from": step} if (table.get("from") or name) == stream else {})
        for name, table in document["tables"].items()
    }
    return document | {"steps": steps, "tables": tables}


def _timed(step: dict[str, Any], time: str) -> dict[str, Any]:
    derive = {column: text.replace("$time", time) for column, text in step["derive"].items()}
    where = step["where"] and step["where"].replace("$time", time)
    return step | {"derive": derive, "where": where}


def _unused(pipeline: Pipeline, stream: str) -> list[str]:
    """The columns of a stream that nothing needs."""
    declared = pipeline.streams[stream]
    needed = {declared.event_time.column, *declared.promised_on, *pipeline.key, "seller_id"}
    for measure in pipeline.groups[0].aggregate.measures.values() if pipeline.groups else ():
        origin, _, column = (measure.column or "").partition(".")
        needed |= {column} if origin == stream else set()
    where = (pipeline.join.where or "").lower() if pipeline.join else ""
    return [
        column for column in declared.columns if column not in needed and f"{stream}_{column}" not in where
    ]
