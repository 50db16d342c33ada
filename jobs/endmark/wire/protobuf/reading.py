"""Reads fields of many Protobuf messages at once: each step reads the next field of every message by NumPy.

The fields of a message come in any order, and a later one replaces an earlier one of its number. A message
within a message is merged with an earlier one. We read by ourselves, since ptars 0.0.25, which makes columns
of messages in Rust, panics on a length that is greater than its message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from endmark.wire.avro.cursor import Cursor
from endmark.wire.framed_records import PAD
from endmark.wire.protobuf.schema import END, GROUP, NARROW, SIZED, VARINT, WIDE

if TYPE_CHECKING:
    from endmark.state.search import Bools, Ints
    from endmark.wire.protobuf.layout import Leaf, Node

    Key = str | tuple[str, ...]  # a column, or the path of a message

MANY = 64  # fields of a message; the rest of a message with more is shortened first, one field at a time
_LONGEST, _LONGEST_LENGTH = 10, 5  # bytes of a number, and of a tag or a length
_BITS = 2**64 - 1
_LARGEST = 2**31 - 1  # bytes of a text or a message
_DEEPEST = 100  # groups within groups
_SIZES = {WIDE: 8, NARROW: 4}


class Found:
    """The fields that are found in some messages.

    Args:
        data: the bytes of all messages, with `PAD` bytes behind them.
        count: the number of messages.

    Attributes:
        data: the same bytes, and behind them messages that were shortened.
    """

    def __init__(self, data: np.ndarray, count: int) -> None:
        self.data = data
        self._count = count
        self._numbers: dict[str, np.ndarray] = {}
        self._lengths: dict[str, Ints] = {}
        self._there: dict[Key, Bools] = {}

    def there(self, key: Key) -> Bools:
        """Return a mask of the messages that have a field, which may be changed."""
        return self._there.setdefault(key, np.zeros(self._count, bool))

    def numbers(self, column: str) -> np.ndarray:
        """Return a column's numbers as bits, or the positions of its texts; 0 where a message has none."""
        return self._numbers.setdefault(column, np.zeros(self._count, np.uint64))

    def lengths(self, column: str) -> Ints:
        """Return the lengths of a column's texts."""
        return self._lengths.setdefault(column, np.zeros(self._count, np.int64))

    def clear(self, node: Node, number: int, records: Ints) -> None:
        """Forget a field of a message, and all that is in it."""
        if number in node.leaves:
            column = node.leaves[number].column
            self.there(column)[records] = False
            self.numbers(column)[records] = 0
            self.lengths(column)[records] = 0
            return
        _, inner = node.nodes[number]
        self.there(inner.path)[records] = False
        for each in [*inner.leaves, *inner.nodes]:
            self.clear(inner, each, records)

    def shortened(self, texts: list[bytes]) -> Ints:
        """Put messages behind the others; return the position of each, and behind the last one."""
        ends = np.cumsum([0, *map(len, texts)])
        start = len(self.data) - PAD
        more = np.frombuffer(b"".join(texts), np.uint8)
        self.data = np.concatenate([self.data[:start], more, np.zeros(PAD, np.uint8)])
        return ends + start


def read_messages(found: Found, node: Node, start: Ints, end: Ints, records: Ints) -> Bools:
    """Read messages to their ends; return a mask of those that are malformed.

    Args:
        found: gets the fields.
        node: the fields to read.
        start: the position of each message's first byte.
        end: the position behind its last byte.
        records: the positions in `found` to which the messages belong.
    """
    cursor = Cursor(found.data, start, end)
    left, steps = np.flatnonzero(cursor.at < cursor.end), 0
    while len(left):
        if steps == MANY:
            _shorten(found, node, cursor, left)
            left = left[cursor.at[left] < cursor.end[left]]
            steps += 1
            continue
        steps += 1
        begins = cursor.at[left]
        tags = cursor.varints(left)
        cursor.fail(left, (tags >= 2**32) | (tags < 8) | (cursor.at[left] - begins > _LONGEST_LENGTH))
        sound = ~cursor.malformed[left]
        _read_fields(found, node, cursor, left[sound], tags[sound].astype(np.int64), records)
        left = left[cursor.at[left] < cursor.end[left]]
    return cursor.malformed


def _read_fields(found: Found, node: Node, cursor: Cursor, rows: Ints, tags: Ints, records: Ints) -> None:
    """Read the next field of each of the messages `rows`, given its tag."""
    known = _known(node)
    for tag in [tag for tag in known if len(rows)]:
        here = tags == tag
        if not here.any():
            continue
        at = rows[here]
        number = tag >> 3
        if number in node.leaves:
            _read_leaf(found, node.leaves[number], cursor, at, records[at])
        elif number in node.nodes:
            _read_node(found, node.nodes[number][1], cursor, at, records[at])
        else:
            _skip(cursor, at, np.full(len(at), tag))
        for other in node.clears.get(number, (0, ()))[1]:
            found.clear(node, other, records[at])
        rows, tags = rows[~here], tags[~here]
    if len(rows):
        _skip(cursor, rows, tags)


def _known(node: Node) -> list[int]:
    """Return the tags of the fields that count. A field that is written in another way is unknown."""
    tags = {number << 3 | leaf.field.wire for number, leaf in node.leaves.items()}
    tags |= {number << 3 | SIZED for number in node.nodes}
    tags |= {number << 3 | wire for number, (wire, _) in node.clears.items()}
    return sorted(tags)


def _read_leaf(found: Found, leaf: Leaf, cursor: Cursor, rows: Ints, records: Ints) -> None:
    column, wire = leaf.column, leaf.field.wire
    if wire == VARINT:
        found.numbers(column)[records] = cursor.varints(rows, cut=True)
    elif wire == SIZED:
        start, length = _sized(cursor, rows)
        found.numbers(column)[records] = start.astype(np.uint64)
        found.lengths(column)[records] = length
    else:
        size = _SIZES[wire]
        found.numbers(column)[records] = cursor.fixed(rows, size).view(f"<u{size}")[:, 0]
    found.there(column)[records] = True


def _read_node(found: Found, node: Node, cursor: Cursor, rows: Ints, records: Ints) -> None:
    start, length = _sized(cursor, rows)
    found.there(node.path)[records] = True
    bad = read_messages(found, node, start, start + length, records)
    cursor.data = found.data
    cursor.fail(rows, bad)


def _sized(cursor: Cursor, rows: Ints) -> tuple[Ints, Ints]:
    """Step over a text or a message; return where it begins, and its length."""
    begins = cursor.at[rows]
    lengths = cursor.varints(rows, cut=True)
    cursor.fail(rows, (lengths > _LARGEST) | (cursor.at[rows] - begins > _LONGEST_LENGTH))
    return cursor.span(rows, np.where(lengths > _LARGEST, 0, lengths).astype(np.int64))


def _skip(cursor: Cursor, rows: Ints, tags: Ints) -> None:
    """Step over fields that do not count."""
    wires = tags & 7
    cursor.fail(rows, (wires == END) | (wires > NARROW))
    if len(at := rows[wires == VARINT]):
        cursor.varints(at, cut=True)
    if len(at := rows[wires == SIZED]):
        _sized(cursor, at)
    for wire, size in _SIZES.items():
        if len(at := rows[wires == wire]):
            cursor.span(at, size)
    for row, tag in zip(rows[wires == GROUP].tolist(), tags[wires == GROUP].tolist(), strict=True):
        text = cursor.data[cursor.at[row] : cursor.end[row]].tobytes()
        try:
            cursor.at[row] += _end_of_group(text, 0, tag >> 3)
        except _NoMessageError:
            cursor.fail(np.array([row]), np.array([True]))


def _shorten(found: Found, node: Node, cursor: Cursor, rows: Ints) -> None:
    """Replace the rests of messages by shorter ones that mean the same, and have each field at most once."""
    texts, at = [], []
    for row in rows.tolist():
        try:
            texts.append(_shortest(node, cursor.data[cursor.at[row] : cursor.end[row]].tobytes()))
            at.append(row)
        except _NoMessageError:
            cursor.fail(np.array([row]), np.array([True]))
    positions = found.shortened(texts)
    cursor.data = found.data
    cursor.at[at], cursor.end[at] = positions[:-1], positions[1:]


class _NoMessageError(ValueError):
    pass


def _shortest(node: Node, text: bytes) -> bytes:
    """Return the fields of a message that count, each once."""
    known, found, at = set(_known(node)), dict[int, list[bytes]](), 0
    while at < len(text):
        tag, inside = _tag(text, at)
        number, wire = tag >> 3, tag & 7
        begin, end = _extent(text, inside, number, wire)
        if tag in known:
            for other in node.clears.get(number, (0, ()))[1]:
                found.pop(other, None)
            if number in node.nodes:
                found.setdefault(number, []).append(text[begin:end])
            else:  # also a field that only forgets others
                found[number] = [text[at:end]]
        at = end
    return b"".join(
        _message(number, b"".join(parts)) if number in node.nodes else parts[0]
        for number, parts in found.items()
    )


def _message(number: int, inner: bytes) -> bytes:
    return _written(number << 3 | SIZED) + _written(len(inner)) + inner


def _written(number: int) -> bytes:
    """Return a number as seven bits in each byte."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _extent(text: bytes, at: int, number: int, wire: int) -> tuple[int, int]:
    """Return where the value of a field begins and ends. Its length, if it has one, is at `at`."""
    begin = at
    match wire:
        case 0:
            _, end = _varint(text, at)
        case 1 | 5:
            end = at + _SIZES[wire]
        case 2:
            length, begin = _varint(text, at)
            end = begin + length
            if length > _LARGEST or begin - at > _LONGEST_LENGTH:
                raise _NoMessageError
        case 3:
            end = _end_of_group(text, at, number)
        case _:
            raise _NoMessageError
    if end > len(text):
        raise _NoMessageError
    return begin, end


def _varint(text: bytes, at: int) -> tuple[int, int]:
    """Return a number of 64 bits, and the position behind it."""
    found = 0
    for group in range(_LONGEST):
        if at + group >= len(text):
            break
        byte = text[at + group]
        found |= (byte & 0x7F) << 7 * group
        if byte < 0x80:
            return found & _BITS, at + group + 1
    raise _NoMessageError


def _tag(text: bytes, at: int) -> tuple[int, int]:
    """Return the tag of a field, and the position behind it."""
    tag, behind = _varint(text, at)
    if tag >= 2**32 or tag < 8 or behind - at > _LONGEST_LENGTH:
        raise _NoMessageError
    return tag, behind


def _end_of_group(text: bytes, at: int, number: int) -> int:
    """Return the position behind a group, whose fields begin at `at`."""
    open_groups = [number]
    while open_groups:
        tag, at = _tag(text, at)
        if tag & 7 == END:
            if open_groups.pop() != tag >> 3:
                raise _NoMessageError
        elif tag & 7 == GROUP:
            open_groups.append(tag >> 3)
            if len(open_groups) > _DEEPEST:
                raise _NoMessageError
        else:
            _, at = _extent(text, at, tag >> 3, tag & 7)
    return at
