"""The keys that a table can have. For another key, its database may refuse the whole statement.

So such a key is not asked for: PostgreSQL refuses a number beyond the column's type, and a text with a NUL.
MySQL and MariaDB refuse characters that the column's character set does not have. They end the connection if
a statement is longer than `max_allowed_packet`, and texts that are longer than the column made it so. No
driver takes a date, a timestamp or a text that Python cannot hold.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from endmark.python_values import holdable
from endmark.relation.charsets import storable_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from endmark.relation.backend import Backend
    from endmark.relation.definition import Column

# The most bytes of texts in one statement: a quarter of the least `max_allowed_packet` that a server has by
# default, since a text may double when it is quoted.
BYTES_AT_ONCE = 1 << 20
_POSTGRESQL_BITS = {"smallint": 16, "integer": 32}
_MYSQL_LETTERS = re.compile(r"(?:var)?char\((\d+)\)")


def possible(
    keys: pa.RecordBatch, backend: Backend, columns: Mapping[str, Column], folded: Mapping[str, str]
) -> pa.RecordBatch:
    """Return the keys that a table can have.

    Args:
        keys: the keys.
        backend: the kind of database.
        columns: the columns of the table, as the database declares them.
        folded: the collation of each key column whose texts the database converts.
    """
    keys = keys.filter(pa.array(holdable(keys)))
    for name in keys.schema.names:
        column, kind = keys.column(name), columns[name].type if name in columns else ""
        is_text = pa.types.is_string(column.type)
        if backend == "postgresql" and is_text:
            keys = keys.filter(pc.invert(pc.match_substring(column, "\0")))
        elif backend == "postgresql" and kind in _POSTGRESQL_BITS and pa.types.is_integer(column.type):
            beyond = 1 << _POSTGRESQL_BITS[kind] - 1
            keys = keys.filter(pc.and_(pc.greater_equal(column, -beyond), pc.less(column, beyond)))
        elif backend == "mysql" and is_text and (declared := _MYSQL_LETTERS.match(kind)):
            keys = keys.filter(pc.less_equal(pc.utf8_length(column), int(declared[1])))
    for name, collation in folded.items():
        keys = keys.filter(storable_texts(keys.column(name), collation))
    return keys


def slices(keys: pa.RecordBatch, at_once: int) -> Iterator[pa.RecordBatch]:
    """Yield all keys in slices of at most `at_once`, and so few that the longest key fits into each place."""
    texts = [column for column in keys.columns if pa.types.is_string(column.type)]
    longest = sum(pc.max(pc.binary_length(column)).as_py() or 0 for column in texts)
    at_once = max(1, min(at_once, BYTES_AT_ONCE // max(1, longest)))
    for at in range(0, keys.num_rows, at_once):
        yield keys.slice(at, at_once)
