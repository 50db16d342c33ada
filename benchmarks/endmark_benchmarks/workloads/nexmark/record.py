"""The input of the contenders of a Nexmark query: a directory of Parquet files for each stream."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from endmark_benchmarks.workloads.nexmark.events import (
    AUCTIONS,
    EPOCH_EVENTS,
    SHARES,
    Generator,
    Span,
    newest_auction,
)
from endmark_feed.relation import fill_table

if TYPE_CHECKING:
    from collections.abc import Sequence

OVER = "over"  # the column of punctuations
SIDE_ROWS = 10_000
_FILES = 2  # of a batch and stream, one for each core
side_input = sa.Table(
    "side_input",
    sa.MetaData(),
    sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    sa.Column("value", sa.String(20), nullable=False),
)


@dataclass(frozen=True)
class Recording:
    """A directory, and what is in it.

    Args:
        batches: of so many events each, `batch_events`, a multiple of 100.
        streams: all, or persons and auctions alone.
    """

    directory: Path
    generator: Generator
    batches: int
    batch_events: int
    streams: tuple[str, ...] = tuple(SHARES)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the recording that `values` of another process describes."""
        known: dict[str, Any] = {"directory": Path(values["directory"]), "streams": tuple(values["streams"])}
        known["generator"] = Generator(**values["generator"])
        return cls(**values | known)

    def to_json(self) -> dict[str, Any]:
        """Return the recording as values for JSON."""
        return asdict(self) | {"directory": str(self.directory)}

    @property
    def files_per_batch(self) -> int:
        """The number of files of each stream in a batch."""
        return _FILES

    def rows(self, streams: Sequence[str]) -> int:
        """Return the number of rows of a batch of some streams."""
        return sum(SHARES[name] for name in streams) * (self.batch_events // EPOCH_EVENTS)

    def stream(self, name: str) -> Path:
        return self.directory / name

    @property
    def side_rows(self) -> Path:
        """The table of q13 as a file."""
        return self.directory / "side_input.parquet"

    @property
    def side_url(self) -> str:
        """The same in a database."""
        return f"sqlite:///{(self.directory / 'side_input.sqlite').absolute()}"

    def span(self, about: str) -> Span:
        return Span.of(about, self.generator.rate)

    @property
    def settled(self) -> int:
        """The id of an auction for which the last event is too late by seconds, whoever tells by its time."""
        behind = self.span(AUCTIONS)
        margin = 2 * (behind.before + behind.after) + 3_000
        return newest_auction(self.batches * self.batch_events - margin * self.generator.rate // 1_000)

    def make(self) -> None:
        """Write all of it, or nothing; punctuations stand behind the rows of their file."""
        part = self.directory.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        for name in self.streams:
            (part / name).mkdir(parents=True)
        events = self.batch_events // _FILES
        for number in range(self.batches * _FILES):
            rows = self.generator.rows(number * events, events, self.streams)
            promises = self.generator.promises((number + 1) * events)
            for name in self.streams:
                file = part / name / f"{number:04d}.parquet"
                pq.write_table(_with_promises(rows[name], promises[name]), file)
                os.utime(file, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their age
        keys = range(SIDE_ROWS)
        side = [{"key": key, "value": str(key)} for key in keys]
        pq.write_table(pa.Table.from_pylist(side), part / self.side_rows.name)
        fill_table(f"sqlite:///{(part / 'side_input.sqlite').absolute()}", side_input, SIDE_ROWS, [side])
        part.rename(self.directory)


def _with_promises(rows: pa.RecordBatch, texts: Sequence[str]) -> pa.Table:
    schema = rows.schema.append(pa.field(OVER, pa.string()))
    data = rows.append_column(OVER, pa.nulls(rows.num_rows, pa.string()))
    nothing = [pa.nulls(len(texts), field.type) for field in rows.schema]
    return pa.Table.from_batches([data, pa.record_batch([*nothing, pa.array(texts, pa.string())], schema)])
