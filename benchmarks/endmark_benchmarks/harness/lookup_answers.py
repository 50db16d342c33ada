"""DuckDB's answers of a lookup, which those of the map's contenders are held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark_benchmarks.workloads import lookup_input

if TYPE_CHECKING:
    from collections.abc import Iterator

_JOIN = "SELECT key, id, name, price, pad FROM stream JOIN r ON key = k"
_SUMS = "SELECT count(*), coalesce(sum(hash(key, id, name, price, pad)::HUGEINT), 0) FROM given"


@dataclass
class Digest:
    """The number of rows that were given, and a sum over them that no order changes."""

    rows: int = 0
    hashes: int = 0

    def take(self, given: list[pa.RecordBatch]) -> None:
        if given:
            with lookup_input.in_memory() as connection:
                connection.register("given", pa.Table.from_batches(given))
                [(rows, hashes)] = connection.execute(_SUMS).fetchall()
            self.rows, self.hashes = self.rows + rows, self.hashes + hashes


class Answers:
    """All of R in DuckDB, with an index, on one core."""

    def __init__(self, relation: pa.Table) -> None:
        self._connection = lookup_input.in_memory()
        self._connection.execute("SET threads TO 1")
        self._connection.register("relation", relation)
        self._connection.execute("CREATE TABLE r AS FROM relation")
        self._connection.execute("CREATE UNIQUE INDEX by_key ON r (k)")
        self._connection.unregister("relation")

    def to(self, rows: pa.RecordBatch) -> list[pa.RecordBatch]:
        self._connection.register("stream", rows)
        given: list[pa.RecordBatch] = self._connection.execute(_JOIN).to_arrow_table().to_batches()
        return given


class Expected:
    """Digests of the answers to a stream's first rows, each of which has one partner in R; every batch is
    joined once, however many contenders were given it.

    Args:
        batches: of the stream, from its beginning.
    """

    def __init__(self, answers: Answers, batches: Iterator[pa.RecordBatch]) -> None:
        self._answers = answers
        self._batches = batches
        self._joined: list[pa.RecordBatch] = []
        self._digests = [Digest()]

    def to_first(self, rows: int) -> Digest:
        """Return the digest of the answers to the first `rows` rows."""
        while self._digests[-1].rows < rows:
            batch = next(self._batches).select(["key", "id"])
            self._joined.append(batch)
            self._digests.append(self._after(self._digests[-1], batch))
        whole = max(at for at, digest in enumerate(self._digests) if digest.rows <= rows)
        before = self._digests[whole]
        if before.rows == rows:
            return before
        return self._after(before, self._joined[whole].slice(0, rows - before.rows))

    def _after(self, before: Digest, rows: pa.RecordBatch) -> Digest:
        digest = Digest(before.rows, before.hashes)
        digest.take(self._answers.to(rows))
        return digest
