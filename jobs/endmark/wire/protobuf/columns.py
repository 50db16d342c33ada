"""Makes columns of a stream of the fields that are found in Protobuf's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.domain import Domain
from endmark.types import Spelling
from endmark.wire.avro.cursor import Cursor
from endmark.wire.json.unquoted import UnquotedReader
from endmark.wire.values import Values, doubles_of, longs_of, out_of, sound, spelled_of, texts_of, times_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.state.search import Bools, Ints
    from endmark.types import ColumnType
    from endmark.wire.protobuf.layout import Leaf, Node, ProtoLayout
    from endmark.wire.protobuf.reading import Found
    from endmark.wire.protobuf.schema import ProtoField

_WIDE = ("int64", "uint64", "sint64", "fixed64", "sfixed64")
_NANOS = 1_000_000_000  # in a second


def columns_of(layout: ProtoLayout, found: Found, count: int) -> dict[str, Values]:
    """Return the columns of some messages by name.

    Args:
        layout: the layout of the messages.
        found: the fields of the messages.
        count: the number of messages.
    """
    return dict(_within(layout, layout.root, found, np.ones(count, bool)))


def _within(layout: ProtoLayout, node: Node, found: Found, there: Bools) -> Iterator[tuple[str, Values]]:
    """Yield the columns within a message, given a mask of the records that have it."""
    if node.times is not None:
        seconds, nanos = (
            _signed(leaf.field, found.numbers(leaf.column))[0] for _, leaf in sorted(node.leaves.items())
        )
        yield node.times, _or_null(_instants(seconds, nanos, layout.columns[node.times]), there)
        return
    for leaf in node.leaves.values():
        present = there & found.there(leaf.column) if leaf.field.optional else there
        values = _values(layout, leaf, found, layout.columns[leaf.column])
        yield leaf.column, _or_null(values, present)
    for _, inner in node.nodes.values():
        yield from _within(layout, inner, found, there & found.there(inner.path))


def _or_null(values: Values, there: Bools) -> Values:
    """Return values that are null but in the records of a mask."""
    if there.all():
        return values
    at = np.where(there, np.arange(len(there)), 0)
    array = values.array.take(pa.array(at, mask=~there))
    return Values(array, values.bad & there, values.garbled & there)


def _values(layout: ProtoLayout, leaf: Leaf, found: Found, kind: ColumnType) -> Values:
    written, raw = leaf.field, found.numbers(leaf.column)
    match written.kind:
        case "string" | "bytes":
            texts = texts_of(_texts(found, raw.astype(np.int64), found.lengths(leaf.column)))
            return texts if kind.domain is Domain.STRING else spelled_of(texts, UnquotedReader(kind))
        case "bool":
            return sound(pa.array(raw != 0))
        case "double" | "float":
            return doubles_of(_fractions(written, raw), kind)
        case "enum":
            return _symbols(layout.symbols(written), _signed(written, raw)[0])
    numbers, large = _signed(written, raw)
    if kind.domain is Domain.DOUBLE:
        return doubles_of(np.where(large, raw.astype(np.float64), numbers.astype(np.float64)), kind)
    is_long = kind.domain is Domain.LONG
    values = longs_of(numbers, kind) if is_long else times_of(numbers, kind, _unit(kind))
    return Values(values.array, values.bad | large, values.garbled)


def _fractions(written: ProtoField, raw: np.ndarray) -> np.ndarray:
    if written.kind == "double":
        return raw.view(np.float64)
    with np.errstate(invalid="ignore"):  # a float may be a NaN that signals; `doubles_of` rejects it
        return raw.astype(np.uint32).view(np.float32).astype(np.float64)


def _unit(kind: ColumnType) -> Spelling:
    if kind.spelling is None:
        raise AssertionError(f"no field of numbers gives a {kind}")
    return kind.spelling


def _texts(found: Found, start: Ints, length: Ints) -> pa.Array:
    """Return texts by their positions, which may be in any order."""
    order = np.argsort(start, kind="stable")
    texts = Cursor(found.data, start[:0], start[:0]).texts(start[order], length[order])
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return texts.take(pa.array(back))


def _signed(written: ProtoField, raw: np.ndarray) -> tuple[Ints, Bools]:
    """Return the numbers that the bits of a field stand for, and a mask of those of more than 63 bits."""
    none = np.zeros(len(raw), bool)
    match written.kind:
        case "sint32" | "sint64":
            bits = raw if written.kind == "sint64" else raw & np.uint64(0xFFFFFFFF)
            return (bits >> np.uint64(1)).view(np.int64) ^ -(bits & np.uint64(1)).view(np.int64), none
        case "uint32" | "fixed32":
            return (raw & np.uint64(0xFFFFFFFF)).view(np.int64), none
        case "uint64" | "fixed64":
            return raw.view(np.int64), raw >= np.uint64(2**63)
        case _ if written.kind in _WIDE:
            return raw.view(np.int64), none
    return raw.astype(np.uint32).view(np.int32).astype(np.int64), none


def _symbols(symbols: dict[int, str], numbers: Ints) -> Values:
    """Return the names of an enum's numbers; a number without a name is a text of digits."""
    found, position = np.unique(numbers, return_inverse=True)
    names = pa.array([symbols.get(number, str(number)) for number in found.tolist()], pa.string())
    return sound(names.take(pa.array(position)))


def _instants(seconds: Ints, nanos: Ints, kind: ColumnType) -> Values:
    """Return times, cut to microseconds."""
    bad = out_of(Spelling.SECONDS, seconds) | (nanos < 0) | (nanos >= _NANOS)
    micros = np.where(bad, 0, seconds) * 1_000_000 + np.where(bad, 0, nanos) // 1_000
    return sound(pa.array(micros).cast(kind.arrow), bad)
