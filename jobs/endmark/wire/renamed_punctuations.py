"""Rewrites punctuations in a column of text after their frame has renamed or dropped columns.

Tucker's rule of projection holds: a punctuation passes if every column that it restricts is still there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from endmark.domain import PunctuationError
from endmark.punctuation import json_text
from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Punctuation
from endmark.punctuation.wire_json import encode_patterns
from endmark.wire.json.column import NamedReader, TextReader, example_of, is_restrictable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.state.search import Ints

_SHAPES = 16  # sets of key columns whose punctuations are read a column at a time, all others one by one


@dataclass(frozen=True)
class Renaming:
    """The change of a frame's column names since its punctuations were written.

    Args:
        columns: the columns that the frame had when its punctuations were written.
        origins: the present columns in their order, each with the first column whose values it has; `None`
            for a computed column.
    """

    columns: pa.Schema
    origins: Mapping[str, str | None]

    @classmethod
    def none(cls, columns: pa.Schema) -> Self:
        """Return the renaming that keeps all names."""
        return cls(columns, {name: name for name in columns.names})

    @property
    def needed(self) -> bool:
        """True if the text of a punctuation may change."""
        return dict(self.origins) != {name: name for name in self.columns.names}

    def then(self, origins: Mapping[str, str | None]) -> Self:
        """Return this renaming followed by another, whose `origins` use the names of this one."""
        now = {name: None if was is None else self.origins[was] for name, was in origins.items()}
        return type(self)(self.columns, now)

    @property
    def names(self) -> dict[str, str]:
        """The present name of each first column that is still there, or the first of its present names."""
        found: dict[str, str] = {}
        for name, origin in self.origins.items():
            if origin is not None:
                found.setdefault(origin, name)
        return found


@dataclass(frozen=True)
class Renamed:
    """Punctuations with the present names of columns.

    Args:
        texts: a text for each punctuation; null if a column that it restricts is gone, or if it is rejected.
        rejected: the position and the error of each text that is no punctuation.
    """

    texts: pa.Array
    rejected: list[tuple[int, str]]


class Renamer:
    """Rewrites punctuations with the present names of columns.

    Punctuations that name keys are many. Once one is seen, all others that name the same columns are written
    a column at a time. The rest is written one by one.

    Args:
        renaming: the change of the names.
        stream: the name of the stream, for errors.
    """

    def __init__(self, renaming: Renaming, stream: str) -> None:
        self._names = renaming.names
        self._columns = pa.schema([field for field in renaming.columns if is_restrictable(field.type)])
        self._one = TextReader(self._columns, stream, example_of(pa.schema(list(self._columns)[:1])))
        self._domains = {
            self._names[name]: each for name, each in self._one.domains.items() if name in self._names
        }
        self._named: dict[tuple[str, ...], NamedReader] = {}

    def __call__(self, texts: pa.Array) -> Renamed:
        """Rename the columns in texts that are not null. No text raises: bad ones are in `rejected`."""
        task = _Texts(texts)
        for key, reader in self._named.items():
            task.put(*self._keys(key, reader, task))
        while task.open.any():
            at = int(np.argmax(task.open))
            try:
                promise = self._one.read(texts[at].as_buffer().to_pybytes())
            except PunctuationError as why:
                task.reject(at, str(why))
                continue
            key = promise.names()
            if _names_key(promise) and key not in self._named and len(self._named) < _SHAPES:
                self._named[key] = NamedReader(pa.schema([self._columns.field(name) for name in key]))
                task.put(*self._keys(key, self._named[key], task))
            if task.open[at]:
                task.put(pa.array([self._written(promise)], pa.string()), np.array([at]))
        return task.done()

    def _keys(self, key: tuple[str, ...], reader: NamedReader, task: _Texts) -> tuple[pa.Array, Ints]:
        """Return the new texts of punctuations that name the columns `key`, and their positions.

        Args:
            key: the first names of the columns.
            reader: the reader of punctuations that name them.
            task: the texts that are still to be written.
        """
        positions = np.flatnonzero(task.open)
        found, at = reader.read(task.texts.take(pa.array(positions)))
        if not self._names.keys() >= set(key):
            return pa.nulls(found.num_rows, pa.string()), positions[at]
        return json_text.named({self._names[name]: found.column(name) for name in key}), positions[at]

    def _written(self, promise: Punctuation) -> str | None:
        """The new text of a punctuation of any shape; `None` if a column that it restricts is gone."""
        if not self._domains or not self._names.keys() >= set(promise.names()):
            return None
        patterns = {self._names[name]: each for name, each in promise.patterns}
        return encode_patterns(Punctuation.of(promise.stream, patterns), self._domains)


def _names_key(promise: Punctuation) -> bool:
    return bool(promise.patterns) and all(isinstance(each, Equals) for _, each in promise.patterns)


class _Texts:
    """A column of text that is written anew piece by piece. `open` is a mask of the texts still to write."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts
        self.open = np.ones(len(texts), bool)
        self._pieces: list[pa.Array] = [pa.array([], pa.string())]
        self._positions: list[Ints] = [np.empty(0, np.int64)]
        self._rejected: list[tuple[int, str]] = []

    def put(self, texts: pa.Array, positions: Ints) -> None:
        self.open[positions] = False
        self._pieces.append(texts)
        self._positions.append(positions)

    def reject(self, at: int, why: str) -> None:
        self.put(pa.nulls(1, pa.string()), np.array([at]))
        self._rejected.append((at, why))

    def done(self) -> Renamed:
        order = np.argsort(np.concatenate(self._positions), kind="stable")
        return Renamed(pa.concat_arrays(self._pieces).take(pa.array(order)), self._rejected)
