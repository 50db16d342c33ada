"""The shop's orders, payments and shipments as the input of whole jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from endmark.client import key_hash
from endmark_benchmarks.workloads.measured import Measured
from endmark_benchmarks.workloads.recorded import Recorded
from endmark_feed import fulfilment
from endmark_feed.message import BAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark_feed.message import Message

MEASURED = Measured(Path(__file__).with_name("three_streams.yaml"))
PARTITIONS = dict.fromkeys(fulfilment.PARTITIONS, 4)
_SEED = 1


def recorded(directory: Path, records: int, rate: float) -> Recorded:
    """Return the recording of a shop below the directory of all recordings.

    Args:
        directory: the directory of all recordings.
        records: the number of records, about.
        rate: records for each second of the shop's run, which is four hours of event time.
    """

    def messages() -> Iterator[Message]:
        """Leave bad records out, which Spark's own operators could not tell from good ones."""
        for message in fulfilment.messages(_SEED, records / rate, rate):
            if message.kind not in BAD:
                yield message._replace(partition=key_hash(message.key) % PARTITIONS[message.topic])

    return Recorded(directory / f"shop-{records}-{rate:g}", PARTITIONS, messages, lambda _: 0)
