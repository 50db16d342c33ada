"""The inputs of a stage: by what each closes keys, and whether its progress moves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from endmark.pipeline.boundedness.input import BY_ROWS, PUNCTUATIONS, Input
from endmark.pipeline.boundedness.rows import rows_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.pipeline.stage import Stage


def inputs_of(stage: Stage) -> list[Input]:
    """Return the inputs of a stage, in the order of the join's."""
    return [
        _derived(stage, name) if name == stage.derived else _streams(stage, name) for name in stage.inputs
    ]


def _streams(stage: Stage, name: str) -> Input:
    """Return a stream or a union as an input. A union closes a key once all of its members have closed it."""
    members = [_stream(stage, name, member) for member in stage.pipeline.flow.members_of(name)]
    silent = next((each for each in members if not each.closes), members[0])
    means = dict.fromkeys(str(each.closes) for each in members)
    common = tuple(column for column in silent.declared if all(column in each.declared for each in members))
    return replace(silent, closes=" and ".join(means) if silent.closes else None, declared=common)


def _stream(stage: Stage, given: str, name: str) -> Input:
    """Return a stream as an input, or as the part of one that is a union.

    Args:
        stage: the stage.
        given: the input.
        name: the stream.
    """
    stream, key = stage.pipeline.streams[name], stage.key
    rule = stream.closes is not None and set(stream.closes.on) == set(key)
    by_rows = zip(BY_ROWS, (stream.unique, stream.clustered, rule), strict=True)
    means = {**dict(by_rows), "order": stream.ordered, PUNCTUATIONS: stage.promises.closes_key(name)}
    declared = stream.punctuated_on
    silence = f"{name} has no punctuations"
    if declared:
        silence = f"{name} has punctuations on {', '.join(declared)} alone, which close no key"
    return Input(
        given,
        stage.window_of(given),
        stage.window_field(given),
        next((by for by, does in means.items() if does), None),
        declared,
        stage.preserved(given),
        key,
        silence,
        _mend_promises(name, [*key, *(column for column in declared if column not in key)]),
    )


def _derived(stage: Stage, name: str) -> Input:
    """Return the derived stream of a stage as an input."""
    earlier = stage.earlier
    if earlier is None or earlier.join is None:
        raise AssertionError(f"{name} is no join of an earlier stage")
    first, *others = inputs_of(earlier)
    oldest = rows_state(first, others, earlier.join.preset, earlier.field)
    columns, mend = stage.key_columns(name), ""
    for stream in earlier.shown:
        own = [column.removeprefix(f"{stream}_") for column in columns if column.startswith(f"{stream}_")]
        if own and not mend:
            member = stage.pipeline.flow.members_of(stream)[0]
            declared = stage.pipeline.streams[member].punctuated_on
            mend = _mend_promises(member, [*declared, *own])
    return Input(
        name,
        stage.window_of(name),
        stage.window_field(name),
        PUNCTUATIONS if stage.promises.closers else None,
        stage.key if stage.promises.closers else (),
        stage.preserved(name),
        stage.key,
        f"no stream of {name} has punctuations on {', '.join(stage.key)}",
        mend,
        None if oldest.bounded_by else f"the progress of {name} waits for {first.name} rows, which stay,",
        oldest.mends,
    )


def _mend_promises(stream: str, columns: Sequence[str]) -> str:
    return f"declare streams.{stream}.punctuated_on: [{', '.join(columns)}]"
