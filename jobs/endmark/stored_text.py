"""Text that all our tables can store, in Delta and in the ops database on any server.

The error of a dead letter repeats parts of its record, so it may hold any characters. Arrow and the databases
refuse half a surrogate pair, PostgreSQL refuses NUL, and MariaDB's TEXT has room for 65,535 bytes. So rows of
tables are built with these functions: `channels.report_rows` builds dead letters and violations, and the
columns of `control.ops_database.tables` convert their values.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

MOST = 2_000  # characters, so at most 8,000 bytes of UTF-8
_CUT = "…"


def storable(text: str, most: int = MOST) -> str:
    r"""Return the text with only printable characters, cut to `most` characters.

    A character that cannot be printed is escaped as Python writes it. A text that is cut ends with `…`.

    >>> storable("half a pair: \ud800, NUL: \0")
    'half a pair: \\ud800, NUL: \\x00'
    >>> storable("0123456789", 5)
    '0123…'
    """
    if text.isprintable() and len(text) <= most:
        return text
    # An escape is longer than its character, so characters behind the first `most` are cut in any case.
    plain = "".join(one if one.isprintable() else _escaped(one) for one in text[: most + 1])
    return plain if len(plain) <= most else plain[: most - len(_CUT)] + _CUT


def storable_value(value: Any) -> Any:
    """Return a value that any JSON column stores: null, a boolean, a number or a storable text.

    A number beyond 64 bits (`1e400`, 30 digits), a list or an object becomes a storable text. MySQL refuses
    such numbers, and MariaDB refuses values that nest more than 32 levels deep.
    """
    match value:
        case None | bool():
            return value
        case int() if -(2**63) <= value < 2**63:
            return value
        case float() if isfinite(value):
            return value
        case int():
            return storable(hex(value))  # Python writes no more than 4,300 decimal digits
    return storable(str(value))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
