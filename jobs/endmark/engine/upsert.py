"""An upsert into a Delta table: the newer row of a key replaces the older one, and a deletion removes it.

Running groups are upserted. The table is partitioned by `final`, too, and no row follows a final one. So an
upsert reads the keys of open groups alone, and rewrites only files of open groups. Its cost grows with the
groups that are open and not with the table, and nothing else that rewrites files of final groups, such as
`endmark maintain`, ever meets it.

The rows of a stream may be upserted, too. Any of them may be replaced, as if all groups were open. Rows that
are rewritten are sorted by their key and shared out among files of 50,000 to 100,000 rows. So the bounds of
keys in Delta's log say of most files that they have no changed key, and an upsert reads only the others.

Files of open groups need no upkeep. Of files with fewer rows, an upsert also rewrites one that has no more
rows than all smaller ones together. So of those that stay, each has more rows than all smaller ones: their
number is logarithmic, and a row is rewritten for this reason a logarithmic number of times.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.engine.delta_files import write_files
from endmark.engine.delta_log import DataFile
from endmark.engine.delta_partitions import codes, with_values
from endmark.storage import read_parquet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from endmark.engine.delta_files import FileTable

# A file with this many rows or more is rewritten only if one of its keys changes. Its rows go to files that
# have up to twice as many.
_FULL_ROWS = 50_000
_HELD_ROWS = 500_000  # the rows of rewritten files that are in memory at a time, about


@dataclass(frozen=True)
class _Rest:
    """The rows of a data file that stay.

    Args:
        file: the file.
        rows: the number of rows that stay.
        stays: a mask of the file's rows; `None` if all stay.
    """

    file: DataFile
    rows: int
    stays: npt.NDArray[np.bool_] | None = None


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
    rests = [_rest(table, file, changed) for file in still_open]
    rests += [
        _Rest(file, rows.num_rows) for file, rows in zip(arrived, keys, strict=True) if not file.is_final
    ]
    added, replaced = list(new), set()
    for files in map(_rewritten, _by_partition(rests)):
        replaced |= {each.file.path for each in files}
        for rows in _pieces(table, key, files):
            added += write_files(table, rows)
    added = [entry for entry in added if entry["path"] not in replaced]
    return added, [file for file in still_open if file.path in replaced]


def read_rows(table: FileTable, file: DataFile, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a data file; those of its partition may be among them.

    A column that is younger than the file is null in its rows.
    """
    stored = pa.schema([table.schema.field(column) for column in columns if column not in file.partition])
    rows = read_parquet(table.path, unquote(file.path), stored)
    return with_values(rows, file.partition, pa.schema([table.schema.field(column) for column in columns]))


def _rest(table: FileTable, file: DataFile, changed: pa.Table) -> _Rest:
    """Return the rows of a file that stay, given the changed keys. A file without any of them is not read."""
    within = np.ones(changed.num_rows, np.bool_)
    for name, (least, most) in file.bounds.items():
        if name in changed.column_names:
            values, kind = changed.column(name), changed.schema.field(name).type
            from_least = pc.greater_equal(values, pa.scalar(least, kind))
            inside = pc.and_(from_least, pc.less_equal(values, pa.scalar(most, kind)))
            within &= np.asarray(pc.fill_null(inside, fill_value=True))
    if file.rows is not None and not within.any():
        return _Rest(file, file.rows)
    stays = ~_is_among(read_rows(table, file, changed.column_names), changed)
    return _Rest(file, int(stays.sum()), None if stays.all() else stays)


def _is_among(keys: pa.Table, changed: pa.Table) -> npt.NDArray[np.bool_]:
    """Return for each key whether it is one of the changed ones."""
    found = np.ones(keys.num_rows, np.bool_)
    for name in keys.column_names:
        found &= np.asarray(pc.is_in(keys.column(name), value_set=changed.column(name)))
    # The columns may have these values in different rows. Few keys are left, so only these are numbered.
    at = np.flatnonzero(found)
    numbers = codes(pa.concat_tables([changed, keys.take(pa.array(at))]), keys.column_names)
    found[at] = np.isin(numbers[changed.num_rows :], numbers[: changed.num_rows])
    return found


def _by_partition(read: Iterable[_Rest]) -> Iterator[list[_Rest]]:
    def values(each: _Rest) -> list[tuple[str, bool, str]]:
        return sorted((name, value is None, value or "") for name, value in each.file.partition.items())

    for _, files in groupby(sorted(read, key=values), values):
        yield list(files)


def _rewritten(files: Sequence[_Rest]) -> list[_Rest]:
    """Return the files of a partition that are rewritten: those that lose rows, and small ones."""
    changed = [each for each in files if each.stays is not None]
    small = sorted(
        (each for each in files if each.stays is None and each.rows < _FULL_ROWS), key=lambda each: each.rows
    )
    total, merged = sum(each.rows for each in changed), 0
    for number, each in enumerate(small):
        if each.rows <= total:
            merged = number + 1
        total += each.rows
    return changed + small[:merged]


def _pieces(table: FileTable, key: Sequence[str], rewritten: Iterable[_Rest]) -> Iterator[pa.Table]:
    """Yield the rows that stay of files that are rewritten, sorted by key, in pieces for a file each."""
    held: list[pa.Table] = []
    for each in filter(lambda each: each.rows, rewritten):
        rows = read_rows(table, each.file, table.schema.names)
        held.append(rows if each.stays is None else rows.filter(pa.array(each.stays)))
        if sum(rows.num_rows for rows in held) >= _HELD_ROWS:
            yield from _sorted_pieces(held, key)
            held = []
    if held:
        yield from _sorted_pieces(held, key)


def _sorted_pieces(held: Sequence[pa.Table], key: Sequence[str]) -> Iterator[pa.Table]:
    rows = pa.concat_tables(held).sort_by([(name, "ascending") for name in key])
    cuts = np.linspace(0, rows.num_rows, max(rows.num_rows // _FULL_ROWS, 1) + 1, dtype=np.int64)
    for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        yield rows.slice(start, end - start)
