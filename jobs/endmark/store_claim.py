"""A claim keeps the tables in an object store for one maintenance at a time.

An object store has no locks, but commits to a Delta table exclude each other. So claims are commits to a
table without rows: a maintenance commits that it begins and that it has ended. The beginning of one that was
killed counts for a day.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

from endmark.errors import MissingPartError
from endmark.storage import options, reaching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.storage import StoreUrl

_LASTS_SECONDS = 86_400.0
_BEGUN = "endmark.begun"  # the Unix time at which a maintenance began, in the commit that begins it
_BY = "endmark.by"


@contextmanager
def store_claimed(directory: StoreUrl) -> Iterator[None]:
    """Claim the tables beside a directory of an object store.

    Args:
        directory: the directory, which gets the claims alone.

    Raises:
        MissingPartError: another maintenance has begun within a day and has not ended, or the store is away.
    """
    try:
        with reaching(directory):
            claims = DeltaTable.create(
                str(directory),
                pa.schema([("claim", pa.string())]),
                mode="ignore",
                storage_options=options(directory),
            )
            last = claims.history(1)[0]  # there may be a next one, which another maintenance commits now
            begun = float(last.get(_BEGUN, 0))
            if time.time() - begun < _LASTS_SECONDS:
                since = f"{datetime.fromtimestamp(begun, UTC):%Y-%m-%d %H:%M} UTC"
                raise _refusal(directory, f"{last[_BY]}, since {since}")
            by = f"process {os.getpid()} of {socket.gethostname()}"
            _commit(claims, {_BEGUN: str(time.time()), _BY: by})
    except CommitFailedError as error:
        raise _refusal(directory, "which has just begun") from error
    try:
        yield
    finally:
        with reaching(directory):
            _commit(claims, {})


def _commit(claims: DeltaTable, note: dict[str, str]) -> None:
    """Commit a note as the version after the one that was read, or fail."""
    claims.create_write_transaction(
        [], "append", claims.schema(), commit_properties=CommitProperties(note, max_commit_retries=0)
    )
    claims.update_incremental()


def _refusal(directory: StoreUrl, holder: str) -> MissingPartError:
    return MissingPartError(
        f"maintenance: another one runs beside {directory} ({holder}); wait until it has ended, or remove "
        "that directory if it was killed"
    )
