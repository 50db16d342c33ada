"""The lookup join as a stage of the plan: a task owns the pages of its bucket for the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from endmark.joins.lookup_join import LookupJoin, LookupOutput
from endmark.metrics import sample
from endmark.profile import Profile
from endmark.spark import channels
from endmark.spark.channels import Buckets, Packer, stream_channel
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from endmark.spark.streams import StreamPlan

    Reading = Callable[[], AbstractContextManager[None]]


class Lookup:
    """For `mapInArrow` over packed rows: joins the rows of one stream, lets everything else pass.

    Args:
        reading: entered around the reads of a batch.
    """

    def __init__(
        self, stream: StreamPlan, relation: str, join: LookupJoin, buckets: Buckets, reading: Reading
    ) -> None:
        self._stream = stream
        self._relation = relation
        self._join = join
        self._buckets = buckets
        self._reading = reading

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        channel = stream_channel(channels.ROWS, self._stream.name)
        arrived, profile = [], Profile()
        for batch in profile.each("shuffle", batches):
            mine = pc.equal(batch.column("channel"), channel)
            arrived += [codec.decode(blob.as_buffer()) for blob in batch.filter(mine).column("blob")]
            if others := batch.filter(pc.invert(mine)):
                with profile.phase("hand_over"):
                    yield others
        packer = Packer()
        if arrived:
            with profile.phase("lookup"), self._reading():
                rows = codec.concat(arrived)
                output = self._join.resolve(rows)
            with profile.phase("pack"):
                self._pack(packer, rows.num_rows, output)
        packer.add_json(self._buckets.labels[0], channels.METRICS, {"samples": profile.take()})
        yield from packer.flush()

    def _pack(self, packer: Packer, rows: int, output: LookupOutput) -> None:
        for channel, batch in ((channels.ROWS, output.joined), (channels.BYSTANDERS, output.missed)):
            for label, share in self._buckets.by_key(batch, self._stream.side.key):
                packer.add(label, stream_channel(channel, self._stream.name), share)
        counts = {
            "lookup_rows_total": rows,
            "lookup_missed_rows_total": output.missed.num_rows,
            "lookup_page_reads_total": output.page_reads,
            "lookup_page_rows_total": output.page_rows,
            "lookup_read_seconds_total": output.read_seconds,
        }
        samples = {sample(name, relation=self._relation): value for name, value in counts.items()}
        packer.add_json(self._buckets.labels[0], channels.METRICS, {"samples": samples})
