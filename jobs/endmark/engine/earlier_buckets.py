"""The state of fewer buckets, which is copied for the buckets that are made of them.

The number of buckets is multiplied. So all keys of bucket `j` were in one earlier bucket, that of `j` modulo
the earlier number. Bucket `j` takes over the whole state of this bucket, and drops the keys of other buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.state.keys import Share
from endmark.storage import read_parquet, write_parquet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from endmark.engine.channels import Buckets
    from endmark.storage import Location

_BLOB = pa.schema([("data", pa.binary())])
_IDS = pa.schema([("id", pa.string())])


@dataclass(frozen=True)
class EarlierState:
    """The copied state of one bucket: a file for each blob, and one with the ids of all.

    Args:
        directory: the directory of the files.
    """

    directory: Location

    def write(self, blobs: Iterable[tuple[str, bytes]]) -> int:
        """Write the copy; return the number of bytes."""
        if isinstance(self.directory, Path):
            self.directory.mkdir(parents=True, exist_ok=True)
        ids = []
        size = 0
        for blob_id, data in blobs:
            ids.append(blob_id)
            size += write_parquet(self.directory, f"{blob_id}.parquet", pa.table([[data]], schema=_BLOB))
        return size + write_parquet(self.directory, "ids.parquet", pa.table([ids], schema=_IDS))

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield each blob with its id."""
        for blob_id in read_parquet(self.directory, "ids.parquet", _IDS).column("id").to_pylist():
            yield blob_id, read_parquet(self.directory, f"{blob_id}.parquet", _BLOB).column("data")[0].as_py()


@dataclass(frozen=True)
class EarlierBuckets:
    """The copied states of all buckets that there were.

    Args:
        directory: the directory of the copies.
        buckets: the number of buckets that there were.
    """

    directory: Location
    buckets: int

    def state(self, stage: int, number: int) -> EarlierState:
        """Return the copied state of a bucket of a stage, both given by their numbers."""
        return EarlierState(self.directory / f"{stage}-{number}")


@dataclass(frozen=True)
class TakenOver:
    """The keys of a bucket, and the state that it begins with if there were fewer buckets before.

    Args:
        share: the keys.
        state: the copied state of the bucket that had these keys and others; `None` if the number of buckets
            has not changed.
    """

    share: Share
    state: EarlierState | None


@dataclass(frozen=True)
class StageBuckets:
    """The buckets of one stage.

    Args:
        stage: the number of the stage.
        buckets: its buckets.
        earlier: the buckets that there were before; `None` if their number has not changed.
    """

    stage: int
    buckets: Buckets
    earlier: EarlierBuckets | None = None

    def taken_over(self, label: int) -> TakenOver:
        """Return the keys of the bucket with a label, and the state that it begins with."""
        number, earlier = self.buckets.labels.index(label), self.earlier
        state = None if earlier is None else earlier.state(self.stage, number % earlier.buckets)
        return TakenOver(Share(number, len(self.buckets)), state)
