"""Writes a drafted pipeline as the text of its file, with comments on what was guessed."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.draft.steps import WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.draft.relations import DraftRelation
    from endmark.draft.steps import DraftJoin, DraftLookup, DraftSteps
    from endmark.draft.streams import DraftStream

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS = {"null", "Null", "NULL", "true", "false"}
_WIDTH = 108


@dataclass(frozen=True)
class Draft:
    """A drafted pipeline.

    Args:
        name: the pipeline's name.
        streams: the streams.
        steps: the steps, with the relations that they look up.
        url: the URL of the relations, as the file has it; `None` without relations.
        newest_by: the key of the table with the newest rows; empty without this table.
    """

    name: str
    streams: Sequence[DraftStream]
    steps: DraftSteps
    url: str | None
    newest_by: tuple[str, ...] = ()

    @property
    def relations(self) -> list[DraftRelation]:
        """The relations, each of which has a lookup."""
        return [lookup.relation for lookup in self.steps.lookups]

    @property
    def text(self) -> str:
        """The text of the pipeline file."""
        sizes = ", ".join(f"{each.records} records of {_value(each.topic)}" for each in self.streams)
        lines = [
            *_comment(
                f"Drafted by `endmark init` from {sizes}. Comments say what was guessed. Types are those of "
                "the values that were read, and ? means that some rows had none."
            ),
            f"name: {_value(self.name)}",
            "",
            "streams:",
        ]
        for stream in self.streams:
            lines += _indented(_stream(stream), 2)
        if self.relations:
            lines += ["", "relations:"]
            for relation in self.relations:
                lines += _indented(_relation(relation, self.url or ""), 2)
        if self.steps.lookups or self.steps.join:
            lines += ["", "steps:"]
            for lookup in self.steps.lookups:
                lines += _indented(_lookup(lookup), 2)
            if self.steps.join:
                lines += _indented(_join(self.steps.join), 2)
        lines += ["", "tables:", f"  results: {{from: {_value(self.steps.last)}}}", *self._newest_rows()]
        for relation in self.steps.unused:
            key = ", ".join(f"{name} ({relation.columns[name]})" for name in relation.key)
            lines += ["", *_comment(f"Table {relation.table} is left out: no stream has its key, {key}.")]
        return "\n".join(lines) + "\n"

    def _newest_rows(self) -> list[str]:
        """The table with the newest row of each key, if the pipeline is of one captured table."""
        if not self.newest_by:
            return []
        return [
            "  # the captured table as it is now: a change replaces the row of its key, and a deletion",
            "  # removes it",
            f"  newest: {{from: {_value(self.steps.last)}, mode: upsert, key: {_list(self.newest_by)}}}",
        ]


def _stream(stream: DraftStream) -> Iterator[str]:
    yield f"{_value(stream.name)}:"
    yield from _indented(_stream_fields(stream), 2)


def _stream_fields(stream: DraftStream) -> Iterator[str]:
    yield from _noted(stream, "topic", [f"topic: {_value(stream.topic)}"])
    yield from _noted(stream, "format", [f"format: {stream.format}"] if stream.format != "json" else [])
    yield from _noted(stream, "columns", ["columns:"])
    for name, kind in stream.columns.items():
        yield from _indented(_noted(stream, f"columns.{name}", [f"{_value(name)}: {kind}"]), 2)
    if stream.taken_from:
        yield "taken_from:"
        for name, part in stream.taken_from.items():
            yield f"  {_value(name)}: {_value(part)}"
    yield from _noted(stream, "extra", ["extra: ignore"] if stream.ignores else [])
    time = [f"column: {_value(stream.event_time)}", f"lateness: {stream.lateness}s"]
    time += ["ahead: null"] if stream.is_ahead else []
    yield from _noted(stream, "event_time", [f"event_time: {{{', '.join(time)}}}"])
    if stream.punctuated_on:
        yield from _noted(stream, "punctuated_on", [f"punctuated_on: {_list(stream.punctuated_on)}"])
        yield from ["punctuation_scope: topic"] if stream.is_spread else []
    yield from _noted(stream, "updates", ["updates: rows"] if stream.has_updates else [])


def _relation(relation: DraftRelation, url: str) -> Iterator[str]:
    yield f"{_value(relation.name)}:"
    yield f"  url: {url}"
    if relation.unfit:
        yield from _indented(_comment(f"to do before a run, which is refused otherwise: {relation.unfit}"), 2)
    yield f"  table: {_value(relation.table)}"
    yield f"  key: {_list(relation.key)}"
    if relation.left_out:
        left = ", ".join(f"{json.dumps(name)} ({reason})" for name, reason in relation.left_out.items())
        yield from _indented(_comment(f"left out: {left}"), 2)
    yield "  columns:"
    for name, kind in relation.columns.items():
        yield f"    {_value(name)}: {kind}"


def _lookup(lookup: DraftLookup) -> Iterator[str]:
    yield from _comment(
        f"guess: {', '.join(lookup.key)} is the key of {lookup.relation.table}. Rows without a match get "
        "nulls; or write drop or dead_letter."
    )
    yield f"{_value(lookup.name)}:"
    yield f"  from: {_value(lookup.source)}"
    yield f"  lookup: {{relation: {_value(lookup.relation.name)}, key: {_list(lookup.key)}, miss: nulls}}"


def _join(join: DraftJoin) -> Iterator[str]:
    yield from _comment(
        f"guess: all streams have {', '.join(join.on)}. Rows within a window of one day ({WINDOW}) of event "
        "time are joined, and older ones are freed; set the longest time that may lie between them."
    )
    yield f"{_value(join.name)}:"
    yield f"  join: [{', '.join(map(_value, join.inputs))}]"
    yield f"  on: {_list(join.on)}"
    yield f"  window: {WINDOW}"


def _noted(stream: DraftStream, field: str, lines: list[str]) -> Iterator[str]:
    if field in stream.notes:
        yield from _comment(stream.notes[field])
    yield from lines


def _comment(text: str) -> list[str]:
    # A comment has ASCII alone: a reader of YAML refuses some characters even there.
    plain = text.encode("ascii", "backslashreplace").decode()
    return textwrap.wrap(plain, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _indented(lines: Iterator[str] | list[str], by: int) -> list[str]:
    return [f"{' ' * by}{line}" for line in lines]


def _list(names: Sequence[str]) -> str:
    return _value(names[0]) if len(names) == 1 else f"[{', '.join(map(_value, names))}]"


def _value(text: str) -> str:
    """Return a text as YAML spells it: in quotes if it could be read as something else."""
    return text if _PLAIN.fullmatch(text) and text not in _WORDS else json.dumps(text)
