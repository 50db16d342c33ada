"""Temporal lookups: a stream row meets the version of R's row that was valid at the stream row's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.operators.lookup.reader import Answer, DuplicateKeyError
from endmark.state.segment import int64

if TYPE_CHECKING:
    from endmark.state.search import Ints

_BEFORE_ALL, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Versions:
    """The rule of a temporal lookup. R's rows of a key are versions; the newest that is not too new matches.

    A version is too new if it is newer than the stream row. A stream row without a time meets none.

    Args:
        stream: the timestamp column of the rows that are looked up.
        relation: R's column with the time from which a version is valid. A version with null is never valid.
    """

    stream: str
    relation: str

    def pick(self, rows: pa.RecordBatch, answer: Answer) -> Answer:
        """Return the answer with at most one match for each of the stream rows.

        Args:
            rows: the stream rows.
            answer: their answer, with all versions as matches.

        Raises:
            DuplicateKeyError: two versions of a key are valid from the same moment.
        """
        i, j = (np.concatenate([np.empty(0, np.int64), *side]) for side in _sides(answer))
        since = _times(answer.block.column(self.relation), _NEVER)[j]
        came = since <= _times(rows.column(self.stream), _BEFORE_ALL)[i]
        i, j, since = i[came], j[came], since[came]
        order = np.lexsort((since, i))
        i, j, since = i[order], j[order], since[order]
        newest = np.append(i[1:] != i[:-1], np.ones(min(1, len(i)), bool))
        twice = np.flatnonzero(newest[1:] & ~newest[:-1] & (since[1:] == since[:-1]))
        if len(twice):
            versions = answer.block.take(pa.array(j[twice[0] : twice[0] + 2])).to_pylist()
            raise DuplicateKeyError(
                f"the relation has two versions of a key from one moment on, {versions}, so it does not say "
                f"which is newer; correct {self.relation} of one of them"
            )
        found = np.zeros(len(answer.rows), bool)
        found[i] = True
        return Answer(answer.rows, found, [(i[newest], j[newest])], answer.block)


def _sides(answer: Answer) -> tuple[list[Ints], list[Ints]]:
    return [i for i, _ in answer.pairs], [j for _, j in answer.pairs]


def _times(column: pa.Array, null: int) -> Ints:
    return int64(pc.fill_null(column.cast(pa.int64()), null))
