"""The spelling of values in JSON by column type, as regular expressions that RE2 and Python read alike.

Dates, times and decimals are strings. JSON has no such values, and most producers would round a decimal that
they write as a number. A decimal may have fewer digits than its column but never more, so none is rounded
here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from endmark.domain import Domain
from endmark.punctuation.scalars import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.types import ColumnType

WS = r"[ \t\r\n]*"
_INTEGER = r"-?(?:0|[1-9][0-9]*)"
_DATE = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}"  # there is no year 0
_PATTERNS = {
    Domain.LONG: _INTEGER,
    Domain.DOUBLE: _INTEGER + r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?",
    Domain.STRING: r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"',
    Domain.BOOLEAN: "(?:true|false)",
    Domain.DATE: rf'"{_DATE}"',
    Domain.TIMESTAMP: rf'"{_DATE}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,6}})?Z"',
}


def _several(one: str) -> str:
    return rf"(?:{one}(?:{WS},{WS}{one})*)?"


_TEXT = _PATTERNS[Domain.STRING]
ANY_SCALAR = rf"(?:{_TEXT}|{_PATTERNS[Domain.DOUBLE]}|true|false|null)"
ANY_FLAT = rf"\{{{WS}{_several(rf'{_TEXT}{WS}:{WS}{ANY_SCALAR}')}{WS}\}}"  # an object of such values
ANY_TOKENS = rf"(?:[\[\]{{}},:0-9eE+. \t\r\n-]|true|false|null|{_TEXT})*"  # JSON's tokens in any order


def pattern(kind: ColumnType) -> str:
    """Return a regular expression for values of a type. It also matches the 30th of February."""
    if kind.domain is not Domain.DECIMAL:
        return _PATTERNS[kind.domain]
    whole = kind.precision - kind.scale
    digits = rf"(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
    return rf'"-?{digits}(?:\.[0-9]{{1,{kind.scale}}})?"' if kind.scale else rf'"-?{digits}"'


def members(values: Mapping[str, str]) -> str:
    """Return an expression for a JSON object of members with these names and values, in any order.

    The caller checks that each name stands there once.
    """
    one = "|".join(rf'"{re.escape(name)}"{WS}:{WS}{value}' for name, value in values.items())
    return rf"\{{{WS}(?:{one})(?:{WS},{WS}(?:{one}))*{WS}\}}"


def naming(columns: Mapping[str, ColumnType]) -> str:
    """Return an expression for a JSON object of patterns, each of which names one value of its column."""
    return members(
        {name: rf'\{{{WS}"equals"{WS}:{WS}{pattern(kind)}{WS}\}}' for name, kind in columns.items()}
    )


def example(kind: ColumnType) -> str:
    """Return an example of a value of a type, spelled as in a record."""
    if kind.domain is not Domain.DECIMAL:
        return EXAMPLES[kind.domain]
    whole = "1" if kind.precision > kind.scale else "0"
    return f'"{whole}.{"5".ljust(kind.scale, "0")}"' if kind.scale else f'"{whole}"'
