"""Random pipeline files of every shape: streams, row steps, lookups, joins in two stages, groups, tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any, NamedTuple

from hypothesis import assume
from hypothesis import strategies as st
from pydantic import ValidationError

from endmark.domain import Domain
from endmark.engine.streams import check_conditions
from endmark.errors import ConfigError
from endmark.operators.lookup.strategies import STRATEGIES
from endmark.operators.stream_join.presets import PRESETS, Preset
from endmark.pipeline import Pipeline, Stream
from endmark.pipeline.measures import FUNCTIONS
from endmark.pipeline.stage import Stage
from endmark.types import ColumnType, JoinType
from support.graph_features import RARELY, Often
from support.graph_values import KEY_TYPES, OWN, USUAL, Values
from support.numbers import with_numbers
from support.record_parts import with_parts
from support.verify_declared import LAST
from support.verify_histories import AHEAD, FORMATS, matched, misses
from support.verify_others import COLUMNS, KEYS
from support.verify_steps import DERIVE, LATER, TICK, TICKS, WHERE, deduplicates

Document = dict[str, Any]


class _Named(NamedTuple):
    """The names of an aggregate and of its tables: of final groups, and of groups so far."""

    step: str
    final: str
    running: str


_GROUPS = _Named("grouped", "groups", "running")
_FURTHER_GROUPS = _Named("further", "further_groups", "further_running")
_ROLLUP = _Named("rolled_up", "rollup", "running_rollup")
_FURTHER_ROLLUP = _Named("further_rolled_up", "further_rollup", "further_running_rollup")
_THIRD_ROLLUP = _Named("rolled_up_too", "third_rollup", "third_running_rollup")


STREAMS = ("north", "east", "south", "west", "far")
TIME = "moment"
# Ways in which members of a union may derive one column.
_TICKS = [
    text.replace("$time", TIME)
    for text in (TICK, "time_bucket(INTERVAL '3 seconds', $time)", "$time - INTERVAL 1 SECOND")
]
KEY = ("item_id", "lot")
# A column of one stream of the first join and of all streams of the second one, whose key it may be.
OWNER = "owner"
# The relations that are asked by what another one has found: the columns of these.
_ASKED = {
    "titles": {"ranks": "rank", "badges": "rank", "sellers": "name"},
    "colours": {"titles": "title"},
}


def spell(declared: Stream, key: int, seller: int, seconds: float, values: Values = USUAL) -> dict[str, Any]:
    """The members of a row."""
    return {
        name: value_of(name, str(kind.required.of_values), key, seller, seconds, values)
        for name, kind in declared.columns.items()
    }


def value_of(column: str, kind: str, key: int, seller: int, seconds: float, values: Values = USUAL) -> Any:
    """The value of a column of a stream, as JSON has it."""
    if column == TIME:
        return values.instant(seconds)
    if column in OWN:
        return values.own[column](seller)
    # Six keys of two columns: three values of the first one, two of the other. An owner has two keys.
    spelled = values.keys[kind]
    return spelled(key) if column.startswith("only_") else spelled(key % 2 if column == "lot" else key // 2)


@st.composite
def graphs(
    draw: st.DrawFn,
    url: str = "sqlite://",
    *,
    parking: bool = True,
    union: bool = False,
    timed: bool = False,
    often: Often = RARELY,
) -> Pipeline:
    """Any pipeline that its file can say; `url` may have a place for one of `MATCHINGS`.

    Parts that do not fit to the others are left out. With `union`, there is one. If it is `timed`, each
    stream has a derived time, by which results are grouped. Most pipelines have the features `often`.
    """
    world = draw(_worlds(often))
    document: Document = {"streams": draw(_streams(world, often)), "relations": {}, "steps": {}}
    document |= {"name": "graph", "unbounded_state": "allow"}
    ends = {stream: stream for stream in document["streams"]}
    ticks = draw(_ticks(document, ends)) if timed else []
    draw(_in_front_of_lookups(document, ends, union=union, promising=world.ends))
    draw(_lookups(document, ends, url, often, parking=parking))
    results = draw(_joins(document, ends, world, url, often, parking=parking))
    document["tables"] = {"results": {"from": results}}
    document = draw(_losing(document, require(document)))
    for stage in require(document).stages:
        if stage.join is not None:
            joined = document["steps"][str(stage.steps.join)] | {"where": draw(_conditions(stage))}
            document = _if_valid(document, {"steps": {str(stage.steps.join): joined}})
    document, results = draw(behind_joins(document, results))
    if ticks or draw(st.integers(0, 5)) < 5:
        document = draw(_aggregated(document, results, ticks))
    draw(_published(document, results, often))
    document = draw(_deduplicated(document, require(document)))
    for name in [*document["streams"], *document["steps"]]:
        if draw(st.integers(0, 3)) == 0:
            document = _if_valid(document, {"tables": {f"of_{name}": {"from": name}}})
        if name not in document["publish"] and draw(st.integers(0, 7)) == 0:
            document = _if_valid(document, {"publish": {name: {"topic": f"published-{name}"}}})
        if draw(often.has("changes", among=6)):
            document = _with_newest_rows(document, name)
    pipeline = require(document)
    if draw(st.integers(0, 3)) == 0:
        pipeline = draw(with_numbers(pipeline))
    return draw(with_parts(pipeline)) if draw(st.booleans()) else pipeline


@st.composite
def _aggregated(draw: st.DrawFn, document: Document, results: str, ticks: Sequence[str]) -> Document:
    """The document with groups of results, perhaps by several keys, and groups of final groups."""
    document = draw(_grouped(document, require(document), results, ticks, _GROUPS))
    if draw(st.integers(0, 2)) == 0:
        times = ticks if draw(st.booleans()) else []
        document = draw(_grouped(document, require(document), results, times, _FURTHER_GROUPS))
    for of, named in ((_GROUPS, _ROLLUP), (_FURTHER_GROUPS, _FURTHER_ROLLUP), (_GROUPS, _THIRD_ROLLUP)):
        if of.step in document["steps"] and draw(st.integers(0, 4)) == 0:
            document = draw(_rolled_up(document, require(document), of, named))
    return document


def _with_newest_rows(document: Document, source: str) -> Document:
    """The document with a table of the newest row of each key of a stream or step, if it can have one."""
    pipeline = require(document)
    if not pipeline.flow.stands_before_joins(source):
        return document
    stream, _ = pipeline.flow.path_to(source)
    table = {"from": source, "mode": "upsert", "key": list(pipeline.stage_of(stream).key)}
    return _if_valid(document, {"tables": {f"newest_of_{source}": table}})


@st.composite
def _published(draw: st.DrawFn, document: Document, results: str, often: Often) -> None:
    """Publish results and groups in some documents, perhaps in place of their table."""
    document["publish"] = {}
    if draw(often.has("published", among=4)):
        document["publish"] = {results: {"topic": "published"}}
        if len(document["tables"]) == 1 or draw(st.booleans()):
            document["tables"].pop("results", None)
    for step in [name for name, step in document["steps"].items() if "aggregate" in step]:
        if draw(often.has("published", among=4)):
            mode = draw(st.sampled_from(["append", "changes"]))
            publish = document["publish"] | {step: {"topic": f"published-{step}", "mode": mode}}
            tables = document["tables"]
            others = {name: table for name, table in tables.items() if step not in (name, table.get("from"))}
            for written in draw(st.permutations([others, tables])):
                if valid(document | {"publish": publish, "tables": written}) is not None:
                    document |= {"publish": publish, "tables": written}
                    break


@st.composite
def _joins(
    draw: st.DrawFn,
    document: Document,
    ends: dict[str, str],
    world: _World,
    url: str,
    often: Often,
    *,
    parking: bool,
) -> str:
    """Join the streams of a world, in one or two stages; return the last step, or the one stream."""
    results = ends[world.first[0]]
    if len(world.first) > 1:
        results = "joined"
        inputs = [ends[stream] for stream in world.first]
        document["steps"]["joined"] = draw(_join(document, inputs, world.key, often, goes_on=world.goes_on))
    if world.goes_on:
        ends |= {"joined": "joined"}
        draw(_lookups(document, {"joined": "joined"}, url, often, parking=parking, origin=world.first[0]))
        results = next(reversed(document["steps"]))
    if world.second:
        results, inputs = "served", [results, *(ends[stream] for stream in world.second)]
        document["steps"]["served"] = draw(_join(document, inputs, world.second_key, often))
    return results


@st.composite
def _in_front_of_lookups(
    draw: st.DrawFn, document: Document, ends: dict[str, str], *, union: bool, promising: bool
) -> None:
    """Row steps of the streams, and sometimes a union in the place of one."""
    for stream in document["streams"]:
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
            _add(document, ends, stream, draw(_row_step(document, stream, ends[stream])))
    if union or draw(st.integers(0, 3)) == 0:
        draw(_union(document, ends, draw(st.sampled_from(list(ends))), promising=promising))


@st.composite
def _union(
    draw: st.DrawFn, document: Document, ends: dict[str, str], stream: str, *, promising: bool
) -> None:
    """Make a union of a stream and others like it. The union has the name of the stream."""
    declared, steps = document["streams"].pop(stream), document["steps"]
    steps_before = [name for name, step in steps.items() if name in _way(document, ends[stream])]
    behind = steps_before[draw(st.integers(0, len(steps_before))) :]
    own = [name for name in steps_before if name not in behind]
    members: dict[str, str] = {}
    streams = [declared, *document["streams"].values()]
    idle = any(each["event_time"]["idle"] for each in streams) or draw(st.integers(0, 4)) == 0
    for number in range(draw(st.sampled_from([2, 2, 3]))):
        name = f"{stream}_{number}"
        members[name] = name
        document["streams"][name] = draw(_member(name, declared, promising=promising, idle=idle))
        for step in own:
            _add(document, members, name, {key: part for key, part in steps[step].items() if key != "from"})
        if draw(st.integers(0, 3)) == 0:
            _add(document, members, name, {"where": "seller_id <> 2"})
    moved = {step: steps.pop(step) for step in steps_before}
    steps[stream] = {"union": draw(st.permutations(list(members.values())))}
    ends[stream] = stream
    for step in behind:
        steps[step] = moved[step] | {"from": ends[stream]}
        ends[stream] = step


def _way(document: Document, end: str) -> list[str]:
    """The row steps up to the last one of a stream."""
    found = []
    while end in document["steps"]:
        found.append(end)
        end = document["steps"][end]["from"]
    return found


@st.composite
def _member(draw: st.DrawFn, name: str, declared: Document, *, promising: bool, idle: bool) -> Document:
    """A stream like another one, of a format and with promises of its own."""
    columns = draw(st.permutations(list(declared["columns"].items())))
    taken = {column for field in ("ordered", "unique", "clustered") for column in declared.get(field, ())}
    taken |= {*declared["punctuated_on"], *declared.get("closes", {"on": []})["on"], TIME}
    may_be_null = draw(st.sampled_from([column for column, _ in columns]))
    found: Document = declared | {
        "topic": f"of.{name}",
        "columns": {
            column: f"{kind}?" if column == may_be_null and column not in taken and kind[-1] != "?" else kind
            for column, kind in columns
        },
        "punctuated_on": declared["punctuated_on"] if promising or draw(st.integers(0, 3)) else [],
        "punctuation_scope": draw(st.sampled_from(["partition", "partition", "topic"])),
        "extra": draw(st.sampled_from(["dead_letter", "ignore"])),
        "event_time": declared["event_time"] | draw(_silence(idle=idle)),
    }
    for field in ("format", "updates"):
        found.pop(field, None)
    if draw(st.booleans()):
        found.pop("closes", None)
    found |= draw(st.sampled_from([{}, {}, *FORMATS]))
    return found


def require(document: Document) -> Pipeline:
    """The pipeline of a document; the example is given up if there is none."""
    pipeline = valid(document)
    assume(pipeline is not None)
    assert pipeline is not None
    return pipeline


def valid(document: Document) -> Pipeline | None:
    """The pipeline of a document; `None` if `validate` refuses it."""
    try:
        pipeline = Pipeline.model_validate(document)
        check_conditions(pipeline)
    except (ValidationError, ConfigError):
        return None
    return pipeline


def _if_valid(document: Document, changes: Mapping[str, Document]) -> Document:
    """The document with other steps or tables, if it is one of a pipeline."""
    changed = document | {part: document[part] | mine for part, mine in changes.items()}
    return document if valid(changed) is None else changed


@st.composite
def _ticks(draw: st.DrawFn, document: Document, ends: dict[str, str]) -> list[str]:
    """Derive a time in each stream; return the names of these columns."""
    for stream in document["streams"]:
        tick = draw(st.sampled_from([TICK, TICK, TICK, *TICKS])).replace("$time", TIME)
        _add(document, ends, stream, {"derive": {"tick": tick}})
    return [f"{stream}.tick" for stream in document["streams"]]


def _add(document: Document, ends: dict[str, str], stream: str, step: Document) -> None:
    # A union takes steps away, so a number may be in use that is not less than the count of steps.
    names = (f"step{number}" for number in count(len(document["steps"])))
    name = next(name for name in names if name not in document["steps"])
    document["steps"][name] = {"from": ends[stream], **step}
    ends[stream] = name


@dataclass(frozen=True)
class _World:
    """The streams of a pipeline.

    Args:
        first: the streams of the first stage.
        key: their key, with types.
        second: the streams that join the results of the first stage.
        second_key: the key of the second join, with types.
        goes_on: whether there is a second stage.
        ends: whether every stream can promise its key. Else few groups would ever be final.
    """

    first: tuple[str, ...]
    key: Mapping[str, str]
    second: tuple[str, ...]
    second_key: Mapping[str, str]
    goes_on: bool
    ends: bool


@st.composite
def _worlds(draw: st.DrawFn, often: Often) -> _World:
    counts = [1, 2, 2, 2, 3, 3, 3, 4, 5]
    if often.wants("further stages") or often.wants("many streams"):
        counts = [3, 3, 4, 5]
    count = draw(st.sampled_from(counts))
    key = {name: draw(st.sampled_from(list(KEY_TYPES))) for name in KEY[: draw(st.sampled_from([1, 1, 2]))]}
    if len(key) == 1:
        key = {"only_id": next(iter(key.values()))}
    owner = {OWNER: draw(st.sampled_from(list(KEY_TYPES)))}
    second_key = draw(st.sampled_from([owner, owner, key, dict([next(iter(key.items()))]), key | owner]))
    numbers = [0, 1, 1, min(2, count - 2)]
    if often.wants("further stages"):
        numbers = numbers[1:]
    elif often.wants("many streams"):
        numbers = [0, 0, 0, 1]
    second = draw(st.sampled_from(numbers)) if count > 2 else 0
    goes_on = second > 0 or (count > 1 and draw(st.integers(0, 7)) == 0)
    streams = STREAMS[:count]
    ends = draw(st.sampled_from([True, True, False]))
    return _World(streams[: count - second], key, streams[count - second :], second_key, goes_on, ends)


@st.composite
def _streams(draw: st.DrawFn, world: _World, often: Often) -> Document:
    idle = draw(often.has("idle", among=10))
    aheads: list[Any] = [None] if draw(st.integers(0, 5)) == 0 else AHEAD
    owning = draw(st.sampled_from(world.first)) if world.goes_on else ""
    owned = {name: kind for name, kind in world.second_key.items() if name == OWNER}
    kinds = dict.fromkeys(world.first, world.key) | dict.fromkeys(world.second, world.second_key)
    return {
        name: draw(
            _stream(name, key, owned if name == owning else {}, aheads, often, idle=idle, ends=world.ends)
        )
        for name, key in kinds.items()
    }


@st.composite
def _stream(
    draw: st.DrawFn,
    name: str,
    key: Mapping[str, str],
    owner: Mapping[str, str],
    aheads: Sequence[Any],
    often: Often,
    *,
    idle: bool,
    ends: bool,
) -> Document:
    others = draw(st.lists(st.sampled_from(list(OWN)[1:]), max_size=3, unique=True))
    columns = {**key, **owner, "seller_id": "long", **{each: OWN[each][0] for each in others}}
    columns |= {TIME: "timestamp"}
    declared: Document = {"topic": f"of.{name}"}
    promised: list[str] = [*key, *owner] if ends else [*key] if draw(st.integers(0, 3)) else []
    able = ["seller_id", "seller_id", TIME, *others, *[*owner] * 4]
    wider = draw(st.lists(st.sampled_from(able), max_size=2, unique=True))
    promised += [column for column in wider if column not in promised] if draw(st.booleans()) else []
    declared["punctuated_on"] = draw(st.permutations(promised))
    declared["punctuation_scope"] = "topic" if draw(often.has("whole topics", among=3)) else "partition"
    rows_promise = "promises of rows"
    if len(key) == 1 and draw(often.has(rows_promise, among=3)):
        declared["ordered"] = dict.fromkeys(key, draw(st.sampled_from(["ascending", "descending"])))
    if draw(often.has(rows_promise, among=3)):
        declared[draw(st.sampled_from(["unique", "clustered"]))] = [*key]
    if draw(often.has(rows_promise, among=4)):
        on = draw(st.sampled_from([[*key], [*key], ["seller_id"], [*key, "seller_id"]]))
        declared["closes"] = {"on": on, "when": draw(st.sampled_from(list(LAST)))}
    taken = {*promised, *declared.get("closes", {"on": []})["on"], TIME}
    taken |= {column for field in ("ordered", "unique", "clustered") for column in declared.get(field, ())}
    free = [column for column in columns if column not in taken]
    gaps = draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if free else []
    declared["columns"] = {column: f"{kind}?" if column in gaps else kind for column, kind in columns.items()}
    declared["extra"] = draw(st.sampled_from(["dead_letter", "dead_letter", "ignore"]))
    captured = FORMATS[-1:] if often.wants("changes") and draw(st.booleans()) else []
    declared |= draw(st.sampled_from(captured or [{}, {}, {}, *FORMATS]))
    silence = draw(_silence(idle=idle))
    declared["event_time"] = {"column": TIME, **silence, "ahead": draw(st.sampled_from(aheads))}
    return declared


@st.composite
def _silence(draw: st.DrawFn, *, idle: bool) -> Document:
    """The lateness of a stream, and perhaps the silence after which its partitions are idle."""
    silence = draw(st.integers(1, 2)) if idle and draw(st.booleans()) else None
    return {
        "lateness": f"{draw(st.integers(0, 1 if idle else 3))}s",
        "idle": silence and f"{silence}s",
    }


@st.composite
def _row_step(draw: st.DrawFn, document: Document, stream: str, end: str) -> Document:
    """A row step that fits behind the last one of its stream, as far as that is easily known."""
    before = document["steps"].get(end, {})
    derived = list(before.get("derive", {}))
    fresh = [column for column in DERIVE if column not in derived]
    derive = draw(st.lists(st.sampled_from(fresh), max_size=2, unique=True))
    declared = document["streams"][stream]
    kept = {TIME, "seller_id", *KEY, "only_id", OWNER, *declared["punctuated_on"]}
    free = [name for name in declared["columns"] if name not in kept and end == stream]
    drop: list[str] = draw(st.lists(st.sampled_from(free), max_size=2, unique=True)) if free else []
    step: Document = {
        "where": draw(
            st.sampled_from([*[None] * 9, *WHERE, *(LATER[column] for column in derived if column in LATER)])
        ),
        "derive": {column: DERIVE[column] for column in derive},
    }
    # A later step may use a derived column, and give a lost column's name anew.
    lost = before.get("drop", [])
    step["derive"] |= dict.fromkeys(lost[:1], derived[0] if derived else "seller_id + 1")
    selects = draw(st.booleans())
    if drop and selects:
        step["select"] = [name for name in [*declared["columns"], *derive] if name not in drop]
    else:
        step["drop"] = drop
    step["where"] = step["where"] and step["where"].replace("$time", TIME)
    step["derive"] = {column: text.replace("$time", TIME) for column, text in step["derive"].items()}
    return step


@st.composite
def _deduplicated(draw: st.DrawFn, document: Document, pipeline: Pipeline) -> Document:
    """The document in which the last row steps of some streams drop duplicates."""
    for stage in pipeline.stages:
        for stream in stage.streams:
            steps = document["steps"]
            way = (*pipeline.flow.behind_unions.get(stream, ()), *stage.steps.paths[stream])
            paths = ((name, steps[name]) for name in way)
            rows = [name for name, _ in takewhile(lambda one: "lookup" not in one[1], paths)]
            if not rows or draw(st.booleans()):
                continue
            columns = pipeline.stream_columns(stream)
            able = [name for name, kind in columns.items() if kind.domain is not Domain.DOUBLE]
            rule = draw(deduplicates(list(stage.key), able))
            step = document["steps"][rows[-1]] | {"deduplicate": rule}
            document = _if_valid(document, {"steps": {rows[-1]: step}})
    return document


@st.composite
def _lookups(
    draw: st.DrawFn,
    document: Document,
    ends: dict[str, str],
    url: str,
    often: Often,
    *,
    parking: bool,
    origin: str = "",
) -> None:
    """Lookups of some streams, each behind those by whose answers it asks.

    The rows of a join are looked up by columns of the stream `origin`.
    """
    of = f"{origin}." if origin else ""
    matching = draw(st.sampled_from(["many_to_one", "many_to_many", "as_of"]))
    where: dict[str, str] = {}
    plus: list[tuple[str, str]] = []  # columns that are derived behind a lookup, each with its stream
    for relation in draw(st.permutations(["sellers", *COLUMNS])):
        keys: dict[str, Any] = dict.fromkeys(ends, f"{of}seller_id")
        if draw(st.booleans()) and plus:
            stream, column = draw(st.sampled_from(plus))
            keys = {stream: column}
        keys = _keys_of(relation, document, ends, where, keys)
        if relation in document["relations"] or not keys or not draw(often.has("parked", among=3)):
            continue
        stream = draw(st.sampled_from(list(keys)))
        where[relation] = stream
        columns = COLUMNS.get(relation, {"seller_id": "long", "name": "string", "rating": "double"})
        lookup: Document = {"key": keys[stream]}
        if relation == "sellers":
            lookup |= {"cardinality": matching} if matching != "as_of" else {}
            if matching == "as_of":
                columns = columns | {"since": "timestamp"}
                lookup["as_of"] = matched("as_of", "items")["as_of"] | {"stream": f"{of}{TIME}"}
        elif relation in ("badges", "colours"):
            lookup["cardinality"] = "many_to_many"
        lookup |= {
            "relation": relation,
            "strategy": draw(st.sampled_from(list(STRATEGIES))),
            # Most rows have no match in some relation, and chains would drop nearly all.
            "miss": draw(misses(parking=parking and draw(often.has("parked", among=4))))
            if draw(often.has("parked", among=4))
            else "nulls",
            "time_per_batch": draw(st.sampled_from([None, None, "0ms"])),
            "memory": draw(st.sampled_from([1, 500, 64_000_000])),
            "cache": draw(st.sampled_from([None, {"memory": 300}])),
        }
        if origin and "dead_letter" in (lookup["miss"], *_then(lookup["miss"])):
            lookup["miss"] = "drop"  # a row of several records is no dead letter
        document["relations"][relation] = {
            "url": url.format(matching),
            "table": relation,
            "key": KEYS.get(relation, "seller_id"),
            "columns": columns,
        }
        _add(document, ends, stream, {"lookup": lookup})
        if not origin and draw(st.booleans()):
            found = draw(st.sampled_from(list(columns)[1:]))
            step = draw(_looked_up_step(stream, f"{relation}.{found}", number=len(document["steps"])))
            _add(document, ends, stream, step)
            plus += [(stream, name) for name in step["derive"] if name.startswith("plus")]


def _keys_of(
    relation: str,
    document: Document,
    ends: Mapping[str, str],
    where: Mapping[str, str],
    others: dict[str, Any],
) -> dict[str, Any]:
    """Return the keys by which streams may ask a relation.

    Args:
        relation: the relation.
        document: the pipeline so far.
        ends: the last step of each stream.
        where: the stream of each lookup so far, by its relation.
        others: what most relations are asked by.
    """
    if relation == "tariffs":
        return dict.fromkeys(_with_tariffs(document, ends), KEYS[relation])
    if relation in _ASKED:
        return {where[by]: f"{by}.{column}" for by, column in _ASKED[relation].items() if by in where}
    return others


def _with_tariffs(document: Document, ends: Mapping[str, str]) -> Iterator[str]:
    """Yield the streams that have the key of tariffs behind their steps, none of which loses a column."""
    for stream, end in ends.items():
        if set(KEYS["tariffs"]) <= set(document["streams"].get(stream, {"columns": {}})["columns"]):
            way = [document["steps"][step] for step in _way(document, end)]
            if not any(step.get("drop") or step.get("select") for step in way):
                yield stream


@st.composite
def _looked_up_step(draw: st.DrawFn, stream: str, found: str, *, number: int) -> Document:
    """A row step behind a lookup that has found the column `found`; it may fail on some rows."""
    seller = f"{stream}.seller_id"
    where = [
        f"{seller} <> 2",
        f"{found} IS NOT NULL",
        f"{found} IS NULL OR {seller} + 9223372036854775804 > 0",  # which fails above 3
    ]
    derive = {
        f"plus{number}": f"{seller} + 1",
        f"bounded{number}": f"{seller} + 9223372036854775805",  # which fails above 2
        f"word{number}": f"{found} || ' of ' || {seller}",
    }
    return {
        "where": draw(st.sampled_from([None, *where])),
        "derive": {
            name: derive[name]
            for name in draw(st.lists(st.sampled_from(list(derive)), max_size=2, unique=True))
        },
    }


@st.composite
def _losing(draw: st.DrawFn, document: Document, pipeline: Pipeline) -> Document:
    """The document with row steps behind lookups that lose columns, if nothing needs these."""
    for stage in pipeline.stages:
        for stream in stage.streams:
            there = [
                f"{origin}.{column}"
                for origin, columns in stage.columns.origins_behind(stream).items()
                for column in columns
            ]
            for name in stage.columns.looked_up_steps(stream):
                natural = f"{stream}.seller_id"  # most lookups ask by it
                drop = draw(st.lists(st.sampled_from([natural, natural, *there]), min_size=1, max_size=2))
                lost = [*dict.fromkeys(drop)]
                kept = [column for column in there if column not in lost]
                choice = draw(st.sampled_from([{}, {"drop": lost}, {"drop": lost[:1]}, {"select": kept}]))
                document = _if_valid(document, {"steps": {name: document["steps"][name] | choice}})
    return document


@st.composite
def _join(
    draw: st.DrawFn,
    document: Document,
    given: Sequence[str],
    key: Mapping[str, str],
    often: Often,
    *,
    goes_on: bool = False,
) -> Document:
    """A join. If its rows go on into a further stage, its first input has a row in each result."""
    inputs = draw(st.permutations(given))
    kinds = [kind for kind in JoinType if not (goes_on and kind.keeps_right)]
    kinds = kinds[1:] if often.wants("outer joins") else kinds
    kind = draw(st.sampled_from(kinds)) if len(inputs) == 2 else JoinType.INNER
    preset = draw(st.sampled_from([*[Preset.AUTO] * 8, *Preset]))
    able = PRESETS[preset]
    idle = any(stream["event_time"]["idle"] for stream in document["streams"].values())
    seconds = st.integers(0, 2 if idle else 5)
    bound = st.one_of(seconds, st.none()) if able.window else st.none()
    window: Any = draw(bound)
    if draw(st.booleans()):
        window = {name: draw(bound) for name in draw(st.permutations(inputs))}
    waits = able.batch and (len(inputs) == 2 or preset in (Preset.PJOIN, Preset.MJOIN))
    return {
        "join": inputs,
        "on": draw(st.permutations(list(key))),
        "type": kind,
        "window": window,
        "preset": preset,
        "purge_every": draw(st.integers(1, 4)) if waits else 1,
        "memory": draw(st.sampled_from([None, None, 1, 2000])) if able.spill else None,
    }


@st.composite
def _conditions(draw: st.DrawFn, stage: Stage) -> str | None:
    """A condition on a result of a stage, which may fail."""
    columns = stage.columns.of_pairs
    longs = [name for name, kind in columns.items() if kind.domain is Domain.LONG and "kafka" not in name]
    if not longs or draw(st.integers(0, 2)):
        return None
    one, other, third = (draw(st.sampled_from(longs)) for _ in range(3))
    text = draw(
        st.sampled_from(
            [
                f"{one} <> {other}",
                f"{one.upper()} + {other} < 6 -- a comment",
                f"{one} < 2 OR {other} IS NULL OR {third} > 1",
                f"{one} = 1 OR {other} + 9223372036854775805 > 0",  # which fails above 2
            ]
        )
    )
    doubles = [name for name, kind in columns.items() if kind.domain is Domain.DOUBLE]
    of_doubles = draw(st.booleans())
    if doubles and of_doubles:
        text = f"{draw(st.sampled_from(doubles))} > 0 OR ({one} IS NOT NULL)"
    return text


@st.composite
def behind_joins(draw: st.DrawFn, document: Document, results: str) -> tuple[Document, str]:
    """The document with row steps behind its joins, and the last step of it."""
    for number, stage in enumerate(require(document).stages):
        end = str(stage.steps.join)
        for step in range(draw(st.sampled_from([0, 1, 1, 2]) if stage.join is not None else st.just(0))):
            declared = draw(_result_step(require(document).stages[number]))
            name = f"behind_{stage.steps.join}_{step}"
            changed = inserted(document, end, name, declared)
            if valid(changed) is not None:
                document, results, end = changed, name if results == end else results, name
    return document, results


@st.composite
def _result_step(draw: st.DrawFn, stage: Stage) -> Document:
    """A row step on the results of a stage, which may fail on some."""
    there = {
        f"{origin}.{name}": kind for origin, of in stage.columns.origins.items() for name, kind in of.items()
    }
    longs = [name for name, kind in there.items() if kind.domain is Domain.LONG]
    times = [name for name, kind in there.items() if kind.domain is Domain.TIMESTAMP]
    if not longs:  # they have been lost
        return {"drop": draw(st.lists(st.sampled_from(list(there)), max_size=2, unique=True))}
    one, other = (draw(st.sampled_from(longs)) for _ in range(2))
    early, late = (draw(st.sampled_from(times)) for _ in range(2))
    where = [
        f"{one} <> 2",
        f"{one} IS NOT NULL AND {other.upper()} <> 1 -- a comment",
        f"{one} + 9223372036854775804 > 0",  # which fails above 3
        f"{early} <= {late}",
    ]
    derive = {
        "sum": f"{one} + {other}",
        "bounded": f"{one} + 9223372036854775804",
        "finite": f"1e308 * {one}",  # which is infinite above 1
        "early": f"{early} < {late}",
        "word": f"CASE {one} WHEN 3 THEN NULL ELSE 'number ' || {other} END",
        "day": f"CAST({early} AS DATE)",
    }
    taken = [*stage.columns.derived]
    chosen = draw(st.lists(st.sampled_from(list(derive)), max_size=2, unique=True))
    lost = draw(st.lists(st.sampled_from(list(there)), max_size=2, unique=True))
    step: Document = {
        "where": draw(st.sampled_from([None, *where])),
        "derive": {name: derive[name] for name in chosen if name not in taken},
    }
    if lost and draw(st.integers(0, 3)) == 0:
        derived = [f"{stage.steps.join}.{name}" for name in step["derive"]]
        return step | {"select": [name for name in [*there, *derived] if name not in lost]}
    return step | {"drop": lost if draw(st.booleans()) else []}


def inserted(document: Document, behind: str, name: str, step: Document) -> Document:
    """The document with a step between another one and what takes its rows."""

    def after(given: str) -> str:
        return name if given == behind else given

    def rewired(taker: Document) -> Document:
        if "union" in taker:
            return taker | {"union": [after(given) for given in taker["union"]]}
        if "join" not in taker:
            return taker | {"from": after(taker["from"])}
        window = taker["window"]
        if isinstance(window, dict):
            window = {after(given): bound for given, bound in window.items()}
        return taker | {"join": [after(given) for given in taker["join"]], "window": window}

    steps = {each: rewired(taker) for each, taker in document["steps"].items()}
    tables = {
        each: table | {"from": after(table["from"] or each)} for each, table in document["tables"].items()
    }
    return document | {"steps": {**steps, name: {"from": behind, **step}}, "tables": tables}


@st.composite
def _grouped(
    draw: st.DrawFn,
    document: Document,
    pipeline: Pipeline,
    results: str,
    ticks: Sequence[str],
    named: _Named,
) -> Document:
    """The document with groups, by one of some derived times if there are any, in tables of any mode."""
    shown = _shown(pipeline)
    by = draw(_group_key(pipeline, shown, ticks))
    if draw(st.booleans()):  # where one origin alone has the column
        by = [each.rpartition(".")[2] if _alone(shown, each) else each for each in by]
    measures: Document = {"rows": "count"}
    for number in range(draw(st.integers(0, 5))):
        column = draw(st.sampled_from(list(shown)))
        kind = shown[column]
        adds = kind.domain in (Domain.LONG, Domain.DOUBLE, Domain.DECIMAL) and kind.precision <= 20
        functions = [name for name, each in FUNCTIONS.items() if name != "count" and (adds or not each.adds)]
        measures[f"m{number}"] = {draw(st.sampled_from(functions)): column}
    tables: Document = {named.final: {"from": named.step}}
    if running := draw(st.sampled_from([None, "changes", "upsert"])):
        tables[named.running] = {"from": named.step, "mode": running}
    if running and draw(st.booleans()):
        del tables[named.final]
    upserted = {named.running: {"from": named.step, "mode": running or "upsert"}}
    for wanted in (tables, tables | upserted, upserted):
        step = {"from": results, "aggregate": {"by": by, "measures": measures}}
        changed = _if_valid(document, {"steps": {named.step: step}, "tables": wanted})
        if changed is not document:
            if draw(st.integers(0, 4)) == 0:
                changed["tables"].pop("results", None)
            return changed
    return document


@st.composite
def _group_key(
    draw: st.DrawFn, pipeline: Pipeline, shown: Mapping[str, ColumnType], ticks: Sequence[str]
) -> list[str]:
    """The columns by which results are grouped: the key of the join, or any that are no doubles."""
    able = [name for name, kind in shown.items() if kind.domain is not Domain.DOUBLE]
    if times := [name for name in able if name in ticks]:
        by = [draw(st.sampled_from(times)), *draw(st.lists(st.sampled_from(able), max_size=1))]
        return list(dict.fromkeys(by))
    by_key = draw(st.integers(0, 3)) <= (1 if len(pipeline.stages) > 1 else 0)
    mixed = draw(st.booleans())
    if mixed and pipeline.groups:  # groups of both kinds, side by side
        by_key = bool(pipeline.regrouped)
    if by_key:
        return list(draw(st.permutations(pipeline.key)))
    promised = [
        f"{stream}.{column}"
        for stream in pipeline.shown
        for column in pipeline.inputs[stream].promised_on
        if f"{stream}.{column}" in able and column not in pipeline.key
    ]
    promised += pipeline.key if len(pipeline.key) > 1 else []
    columns = draw(st.sampled_from([[*able, *pipeline.key], promised or able, promised or able]))
    return draw(st.lists(st.sampled_from(columns), min_size=1, max_size=2, unique=True))


@st.composite
def _rolled_up(
    draw: st.DrawFn, document: Document, pipeline: Pipeline, of: _Named, named: _Named
) -> Document:
    """The document with groups of some final groups, in tables of any mode."""
    [taken] = [groups for groups in pipeline.groups if groups.step == of.step]
    groups, key = taken.columns(), list(taken.key)
    single = [name for name, kind in groups.items() if not kind.many]
    able = [name for name in single if groups[name].domain is not Domain.DOUBLE]
    measured = [name for name in able if name not in key]
    columns = draw(st.sampled_from([key, key, able])) if len(key) > 1 else measured
    measures: Document = {"groups": "count"}
    for number in range(draw(st.integers(0, 3))):
        column = draw(st.sampled_from(single))
        functions = [name for name, each in FUNCTIONS.items() if name != "count" and not each.by_order]
        measures[f"r{number}"] = {draw(st.sampled_from(functions)): column}
    drawn = st.lists(st.sampled_from(columns), min_size=1, max_size=2, unique=True)
    by = draw(drawn.filter(lambda by: not set(by) >= set(key)))
    tables: Document = {named.final: {"from": named.step}}
    running: Document = {}
    if mode := draw(st.sampled_from([None, "changes", "upsert"])):
        running = {named.running: {"from": named.step, "mode": mode}}
    step = {"from": of.step, "aggregate": {"by": by, "measures": measures}}
    upserted = {named.running: {"from": named.step, "mode": mode or "upsert"}}
    for wanted in (tables | running, upserted):
        changed = _if_valid(document, {"steps": {named.step: step}, "tables": wanted})
        if changed is not document:
            if draw(st.booleans()):
                changed = _without(changed, of.final)
            return changed
    return document


def _without(document: Document, table: str) -> Document:
    """The document without a table, if it is still one of a pipeline."""
    tables = {name: each for name, each in document["tables"].items() if name != table}
    changed = document | {"tables": tables}
    return document if valid(changed) is None else changed


def _shown(pipeline: Pipeline) -> dict[str, ColumnType]:
    """The columns of results, as measures name them, with their types."""
    found: dict[str, ColumnType] = {}
    derived = [stage.derived for stage in pipeline.stages if stage.derived in stage.shown_inputs]
    for given in [*pipeline.shown, *derived]:
        if given in pipeline.inputs:
            found |= {f"{given}.{name}": kind for name, kind in pipeline.stream_columns(given).items()}
        for lookup in pipeline.lookups_of(str(given)):
            kinds = pipeline.relations[lookup.relation].columns
            found |= {f"{lookup.relation}.{name}": kind for name, kind in kinds.items()}
    for stage in pipeline.stages:
        found |= {f"{stage.steps.join}.{name}": kind for name, kind in stage.columns.derived.items()}
    return {name: kind for name, kind in found.items() if _is_there(pipeline, *name.split("."))}


def _is_there(pipeline: Pipeline, origin: str, column: str) -> bool:
    return column in pipeline.references.origins[origin]


def _then(miss: Any) -> list[str]:
    """Return the fate of rows after they were parked, if they are."""
    return [miss["park"]["then"]] if isinstance(miss, dict) else []


def _alone(shown: Mapping[str, ColumnType], reference: str) -> bool:
    name = reference.rpartition(".")[2]
    return sum(each.rpartition(".")[2] == name for each in shown) == 1
