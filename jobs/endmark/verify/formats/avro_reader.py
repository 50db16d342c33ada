"""Reads values of Avro types from bytes, one after the other."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.verify.formats.avro_schema import Type


class MalformedError(Exception):
    """The bytes are no value of their schema."""


class Reader:
    """Reads values one after the other.

    Args:
        value: the bytes.
        at: the position of the first byte to read.
    """

    def __init__(self, value: bytes, at: int = 0) -> None:
        self._value = value
        self._at = at

    @property
    def ended(self) -> bool:
        """True if no byte is left."""
        return self._at == len(self._value)

    def copy(self) -> Reader:
        """Return another reader at the same position."""
        return Reader(self._value, self._at)

    def index(self, among: list[Any]) -> int:
        """Read which of a list follows."""
        if not 0 <= (found := self._int()) < len(among):
            raise MalformedError
        return found

    def value(self, written: Type) -> tuple[Type, Any] | None:
        """Read a value; return its type, which is no union, and the value. `None` stands for null.

        Texts are bytes. Lists, maps and records are read, but not returned.
        """
        match written.kind:
            case "null":
                return None
            case "union":
                return self.value(written.inner[self.index(written.inner)])
            case "record":
                for _, _, kind in written.fields:
                    self.value(kind)
                return written, None
            case "array" | "map":
                self._blocks(written)
                return written, None
        return written, self._plain(written)

    def _plain(self, written: Type) -> Any:
        readers: dict[str, Callable[[], Any]] = {
            "boolean": lambda: (False, True)[self._byte(2)],
            "int": self._int,
            "long": self._long,
            "float": lambda: struct.unpack("<f", self._bytes(4))[0],
            "double": lambda: struct.unpack("<d", self._bytes(8))[0],
            "bytes": lambda: self._bytes(self._long()),
            "string": lambda: self._bytes(self._long()),
            "fixed": lambda: self._bytes(written.size),
            "enum": lambda: written.symbols[self.index(written.symbols)],
        }
        return readers[written.kind]()

    def _byte(self, values: int) -> int:
        if (found := self._bytes(1)[0]) >= values:
            raise MalformedError
        return found

    def _blocks(self, written: Type) -> None:
        (inner,) = written.inner
        while count := self._long():
            if count < 0:
                self._bytes(self._long())
                continue
            if written.kind == "array" and inner.empty:
                continue
            if count > len(self._value) - self._at:  # each of them has a byte
                raise MalformedError
            for _ in range(count):
                if written.kind == "map":
                    self._bytes(self._long())
                self.value(inner)

    def _bytes(self, length: int) -> bytes:
        if not 0 <= length <= len(self._value) - self._at:
            raise MalformedError
        self._at += length
        return self._value[self._at - length : self._at]

    def _int(self) -> int:
        if not -(2**31) <= (found := self._long()) < 2**31:
            raise MalformedError
        return found

    def _long(self) -> int:
        found = 0
        for group in range(10):
            (byte,) = self._bytes(1)
            found += (byte % 128) << (7 * group)
            if byte < 128:
                if found.bit_length() > 64:
                    break
                return found // 2 if found % 2 == 0 else -(found + 1) // 2
        raise MalformedError
