"""An upsert into a Delta table: the newer row of a key replaces the older one, and a deletion removes it.

Running groups are upserted. The table is partitioned by `final`, too, and no row follows a final one. So an
upsert reads the keys of open groups alone, and rewrites only files of open groups. Its cost grows with the
groups that are open and not with the table, and nothing else that rewrites files of final groups, such as
`endmark maintain`, ever meets it.

The rows of a stream may be upserted, too. Any of them may be replaced, as if all groups were open. Then an
upsert reads the keys of the whole table.

Files of open groups need no upkeep. An upsert also rewrites a file that has no more rows than all smaller
ones together. So of the files that stay, each has more rows than all smaller ones: their number is
logarithmic, and a row is rewritten for this reason a logarithmic number of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from endmark.engine.delta_files import write_files
from endmark.engine.delta_log import DataFile
from endmark.engine.delta_partitions import codes, with_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from endmark.engine.delta_files import FileTable

# A file of more rows is rewritten only for a key of its own. About as many rows are in memory at a time.
_FULL_ROWS = 500_000


@dataclass(frozen=True)
class _Read:
    """A data file and, for each of its rows, whether the row stays."""

    file: DataFile
    stays: npt.NDArray[np.bool_]

    @property
    def rows(self) -> int:
        """The number of rows that stay."""
        return int(self.stays.sum())

    @property
    def is_whole(self) -> bool:
        return bool(self.stays.all())


def upsert(
    table: FileTable,
    key: Sequence[str],
    current: Iterable[DataFile],
    new: Sequence[Mapping[str, Any]],
    deleted: Sequence[Mapping[str, Any]] = (),
) -> tuple[list[Mapping[str, Any]], list[DataFile]]:
    """Write the files of the version in which each key of a batch has its row of this batch, and no other.

    Args:
        table: the table. It is partitioned by `final` if it has groups.
        key: the columns of the key. A batch has a key once.
        current: the files of the version before; those of final rows are not read.
        new: the entries of the files that the tasks of the batch have written.
        deleted: the entries of files with the keys that the batch deletes, which the table does not get.

    Returns:
        The entries of the files to add, and the files to remove.
    """
    arrived, removing = (
        [DataFile(entry["path"], entry["size"], entry["partition"]) for entry in entries]
        for entries in (new, deleted)
    )
    keys = [read_rows(table, file, key) for file in arrived]
    changed = pa.concat_tables([*keys, *(read_rows(table, file, key) for file in removing)])
    still_open = [file for file in current if not file.is_final]
    read = [_Read(file, ~_is_among(read_rows(table, file, key), changed)) for file in still_open]
    read += [
        _Read(file, np.ones(rows.num_rows, np.bool_))
        for file, rows in zip(arrived, keys, strict=True)
        if not file.is_final
    ]
    rewritten = [each for files in _by_partition(read) for each in _rewritten(files)]
    replaced = {each.file.path for each in rewritten}
    added = [entry for entry in new if entry["path"] not in replaced]
    for rows in _pieces(table, rewritten):
        added += write_files(table, rows)
    return added, [file for file in still_open if file.path in replaced]


def read_rows(table: FileTable, file: DataFile, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a data file; those of its partition may be among them."""
    stored = [column for column in columns if column not in file.partition]
    # Without `partitioning`, a directory such as `final=false` would be a column.
    rows = pq.read_table(table.path / unquote(file.path), columns=stored, partitioning=None)
    return with_values(rows, file.partition, pa.schema([table.schema.field(column) for column in columns]))


def _is_among(keys: pa.Table, changed: pa.Table) -> npt.NDArray[np.bool_]:
    """Return for each key whether it is one of the changed ones."""
    numbers = codes(pa.concat_tables([changed, keys]), keys.column_names)
    return np.isin(numbers[changed.num_rows :], numbers[: changed.num_rows])


def _by_partition(read: Iterable[_Read]) -> Iterator[list[_Read]]:
    def values(each: _Read) -> list[tuple[str, bool, str]]:
        return sorted((name, value is None, value or "") for name, value in each.file.partition.items())

    for _, files in groupby(sorted(read, key=values), values):
        yield list(files)


def _rewritten(files: Sequence[_Read]) -> list[_Read]:
    """Return the files of a partition that are rewritten: those that lose rows, and small ones."""
    changed = [each for each in files if not each.is_whole]
    small = sorted(
        (each for each in files if each.is_whole and each.rows < _FULL_ROWS), key=lambda each: each.rows
    )
    total, merged = sum(each.rows for each in changed), 0
    for place, each in enumerate(small):
        if each.rows <= total:
            merged = place + 1
        total += each.rows
    return changed + small[:merged]


def _pieces(table: FileTable, rewritten: Iterable[_Read]) -> Iterator[pa.Table]:
    """Yield the rows that stay of files that are rewritten, about `_FULL_ROWS` at a time."""
    held: list[pa.Table] = []
    for each in rewritten:
        if each.rows:
            held.append(read_rows(table, each.file, table.schema.names).filter(pa.array(each.stays)))
        if sum(rows.num_rows for rows in held) >= _FULL_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)
