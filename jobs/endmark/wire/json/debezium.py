"""Reads Debezium's JSON envelopes, with or without their schema, as rows and punctuations.

Only the members `op`, `after` and `before` count; all others may be anything. `change` says what an envelope
is by its `op`. A tombstone is skipped, since the deletion before it has said the same.

Envelopes in Debezium's usual spelling are read a column at a time, like flat records. All others are read one
by one.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.types import ColumnType
from endmark.wire.change import Change, ChangeRules, no_envelope
from endmark.wire.json.reader import JsonReader, mask, matching
from endmark.wire.json.records import MARK, JsonParser, Parsed
from endmark.wire.json.shape import shape_of
from endmark.wire.json.spelling import (
    ANY_FLAT,
    ANY_OBJECT,
    ANY_SCALAR,
    ANY_TOKENS,
    WS,
    pattern,
    row,
    shaped,
)
from endmark.wire.json.translation import parse_translated
from endmark.wire.merging import merged
from endmark.wire.rejection import Document, UnreadableError, first_twice_in, read_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.state.search import Bools, Ints
    from endmark.wire.json.shape import Path
    from endmark.wire.record_spec import RecordSpec

_MOST_OPENED = 800  # objects and lists; Python's reader, which reads all other records, nests hardly deeper
_OPTIONAL = rf'(?:{WS},{WS}"%s"{WS}:{WS}(?:null|%s))?'
_TIMES = "".join(_OPTIONAL % (name, "-?[0-9]+") for name in ("ts_ms", "ts_us", "ts_ns"))
_TRANSACTION = _OPTIONAL % ("transaction", ANY_FLAT)


class DebeziumParser:
    """Parses the records of one stream.

    Args:
        records: what the records may say. Its punctuations are deletions, and restrict the columns of
            `rules.deleted_on` alone; a row image has all of these.
        rules: what its changes are.
    """

    def __init__(self, records: RecordSpec, rules: ChangeRules) -> None:
        columns, key, ignoring = records.columns, records.named, records.ignoring
        self._paths = paths = records.value_paths
        self._shape = shape_of(paths)
        self._ignoring = ignoring
        self._rules = rules
        self._flat = JsonParser(replace(records, punctuated_on=rules.deleted_on, heartbeat_on=None))
        # If the primary key is the join key, deletions name keys and are read a column at a time. Deletions
        # of any other primary key are promises and are read one by one.
        named = key if key.keys() == set(rules.deleted_on) else {}
        self._forms = [
            _Form(columns, paths, named, self._rules.row_ops, path, ignoring=extra)
            for extra in ((False, True) if ignoring else (False,))
            for path in ((), ("payload",))
        ]

    def parse(self, values: pa.Array) -> Parsed:
        """Parse the records in a binary array. No record raises: bad ones are in `rejections`."""
        left = np.ones(len(values), bool)
        pieces = []
        for form in self._forms:
            found = form.read(values, left)
            left[found.row_at] = left[found.closed_keys_at] = False
            pieces.append(found)
        skipped = 0
        if not self._rules.deleted_on:
            for form in self._forms:
                deletions = form.deletions(values, left)
                left[deletions] = False
                skipped += len(deletions)
        pieces.append(parse_translated(values, np.flatnonzero(left), self._translated, self._flat))
        found = merged(pieces)
        return replace(found, skipped=skipped + found.skipped)

    def _translated(self, value: bytes) -> bytes | None:
        """The row or punctuation of an envelope, as flat JSON; `None` for a deletion without effect."""
        envelope = read_document(value)
        if "payload" in envelope:
            envelope = _member(envelope, "payload")
        change = self._rules.of(_member(envelope, "op", str))
        if change is Change.ROW:
            after = _member(envelope, "after")
            twice = first_twice_in(after, self._shape)
            if twice is None and not self._ignoring:
                twice = min(after.twice, default=None)
            if twice is not None:
                raise UnreadableError("duplicate_field", f"field {twice!r} stands twice in `after`")
            return json.dumps(after, ensure_ascii=False).encode()
        if change is Change.NOTHING:
            return None
        before = _member(envelope, "before")
        values = {name: _value_at(before, self._paths[name]) for name in self._rules.deleted_on}
        if lacking := [name for name, value in values.items() if value is None]:
            why = f"`before` has no value for {lacking[0]!r}; a deletion names the whole primary key"
            raise UnreadableError("bad_punctuation", why)
        named = {name: {"equals": value} for name, value in values.items()}
        return json.dumps({MARK: named}, ensure_ascii=False).encode()


class _Form:
    """Reads envelopes in Debezium's usual spelling: their rows, and the keys that they delete.

    Args:
        columns: the columns of the stream.
        paths: for each column of a row image the names of the nested members that lead to it.
        named: the columns of the key that a deletion names; empty if it names no key, or another one.
        row_ops: the values of `op` that stand for a row.
        path: the members that lead to the envelope; `payload` or none.
        ignoring: whether a row image may have other columns. Those without any are read before.
    """

    def __init__(
        self,
        columns: Mapping[str, ColumnType],
        paths: Mapping[str, Path],
        named: Mapping[str, ColumnType],
        row_ops: str,
        path: tuple[str, ...],
        *,
        ignoring: bool,
    ) -> None:
        def written(op: str, before: str, after: str) -> str:
            texts = [f'"before"{WS}:{WS}{before}', f'"after"{WS}:{WS}{after}', f'"source"{WS}:{WS}{ANY_FLAT}']
            envelope = rf"{WS},{WS}".join(texts)
            envelope += rf'{_TRANSACTION}{WS},{WS}"op"{WS}:{WS}"{op}"{_TIMES}{_TRANSACTION}'
            envelope = rf"\{{{WS}{envelope}{WS}\}}"
            # The tokens and the envelope make up a document, so `payload`, its last member, is of the
            # outermost object.
            return rf'\{{{WS}"schema"{ANY_TOKENS}"payload"{WS}:{WS}{envelope}{WS}\}}' if path else envelope

        self._nested = bool(path)
        self._ignoring = ignoring
        shape = shape_of(paths)
        after = row(columns, shape, ignoring=ignoring)
        self._row = written(f"[{row_ops}]", f"(?:null|{ANY_OBJECT})", after)
        values = dict.fromkeys(columns, ANY_SCALAR) | {name: pattern(kind) for name, kind in named.items()}
        self._deletion = written("d", shaped(shape, values, ignoring=ignoring), "null")
        self._names = bool(named)
        self._ops = JsonReader({"op": ColumnType.STRING}, {"op": (*path, "op")}, ignoring=True)
        self._rows = JsonReader(
            {name: columns[name] for name in paths},
            {name: (*path, "after", *inner) for name, inner in paths.items()},
            ignoring=True,
        )
        self._closed_keys = JsonReader(
            named, {name: (*path, "before", *paths[name]) for name in named}, ignoring=True
        )

    def deletions(self, values: pa.Array, among: Bools) -> Ints:
        """Return the positions of deletions among some records, whatever they name."""
        _, at = self._ops.read(values, _written(values, self._shallow(values, among), self._deletion))
        return at

    def read(self, values: pa.Array, among: Bools) -> Parsed:
        """Read the rows, and the keys that deletions name, among some records."""
        among = self._shallow(values, among)
        written = _written(values, among, self._row)
        rows, row_at = self._rows.read(values, written)
        rest = among.copy()  # most records are rows, and no row is a deletion
        rest[written] = False
        deletion = self._deletion if self._names else None
        closed_keys, closed_keys_at = self._closed_keys.read(values, _written(values, rest, deletion))
        extra = len(row_at) if self._ignoring else 0
        return Parsed(rows, row_at, closed_keys, closed_keys_at, [], [], extra=extra)

    def _shallow(self, values: pa.Array, among: Bools) -> Bools:
        """Return a mask of the records among some that can be read in columns."""
        if not self._nested or not among.any():
            return among
        # Python's reader takes deeper documents, so that both ways to read a record agree on them.
        opened = pc.add(pc.count_substring(values, "{"), pc.count_substring(values, "["))
        return among & mask(pc.less_equal(opened, _MOST_OPENED))


def _written(values: pa.Array, among: Bools, expression: str | None) -> Ints:
    """Return the positions of the records that match a regular expression.

    Args:
        values: a binary array of records.
        among: a mask of the records to look at.
        expression: the regular expression; `None` matches no record.
    """
    at = np.flatnonzero(among)
    if expression is None or not len(at):
        return at[:0]
    return at[matching(values.take(pa.array(at)), expression)]


def _value_at(of: Document, path: Path) -> Any:
    """The value of a nested member. It may be of any type, but must not stand twice."""
    for name in path[:-1]:
        of = _member(of, name)
    return _member(of, path[-1], object)


def _member(of: Document, name: str, kind: type = Document) -> Any:
    """A member of a JSON object, which must be of a Python type and must not stand twice."""
    if name in of.twice:
        raise UnreadableError("duplicate_field", f"member {name!r} stands twice")
    if not isinstance(found := of.get(name), kind):
        raise no_envelope(name, "a text" if kind is str else "an object")
    return found
