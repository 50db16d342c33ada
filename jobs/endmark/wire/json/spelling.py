"""The spelling of values in JSON by column type, as regular expressions that RE2 and Python read alike.

Dates, times and decimals are strings, unless a column's type says that times are numbers. JSON has no such
values, and most producers would round a decimal that they write as a number. A decimal may have fewer digits
than its column but never more, so none is rounded here.
"""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import TYPE_CHECKING

from endmark.domain import Domain
from endmark.punctuation.json_shape import MEMBER
from endmark.punctuation.scalars import EXAMPLES, ZONE, from_scalar
from endmark.wire.json.shape import NEVER_IGNORED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from endmark.types import ColumnType
    from endmark.wire.json.shape import Shape

WS = r"[ \t\r\n]*"
_INTEGER = r"-?(?:0|[1-9][0-9]*)"
_DATE = r"(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}"  # there is no year 0
_PATTERNS = {
    Domain.LONG: _INTEGER,
    Domain.DOUBLE: _INTEGER + r"(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?",
    Domain.STRING: r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"',
    Domain.BOOLEAN: "(?:true|false)",
    Domain.DATE: rf'"{_DATE}"',
    Domain.TIMESTAMP: rf'"{_DATE}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,6}})?{ZONE}"',
}


def _several(one: str) -> str:
    return rf"(?:{one}(?:{WS},{WS}{one})*)?"


_TEXT = _PATTERNS[Domain.STRING]
ANY_SCALAR = rf"(?:{_TEXT}|{_PATTERNS[Domain.DOUBLE]}|true|false|null)"
ANY_FLAT = rf"\{{{WS}{_several(rf'{_TEXT}{WS}:{WS}{ANY_SCALAR}')}{WS}\}}"  # an object of such values
ANY_TOKENS = rf"(?:[\[\]{{}},:0-9eE+. \t\r\n-]|true|false|null|{_TEXT})*"  # JSON's tokens in any order
# Values of members that do not count. Arrow's reader refuses 1e309 even there, so exponents have two digits.
_NUMBER = rf"{_INTEGER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{{1,2}})?"
_WORD = rf"{_TEXT}|true|false|null"
_OPENING = r"[\[{]"
# The most characters of an expression for rows. RE2 refuses 1.2 million, and takes 0.2 s for one million.
_MOST_CHARACTERS = 1_000_000
_WITHIN = frozenset([MEMBER])  # members that are never ignored in an object within a record
MOST_LEVELS = 100  # of objects with columns; RE2 reads 1,000 brackets in brackets, and a level has three
_LEVELS = 8  # of objects and lists; with more, or with larger exponents, a record is read by itself


def _level(opening: str, inner: str = "") -> str:
    """Return an expression for JSON's tokens between two brackets, with deeper levels if `inner` has any."""
    pause = r"[,: \t\r\n]"
    return rf"{opening}(?:{pause}|{_WORD}{inner}|{_NUMBER}{pause})*(?:{_NUMBER})?[\]}}]"


def _nested(opening: str) -> str:
    """Return an expression for values of up to `_LEVELS` levels; the outermost begins with `opening`.

    Each bracket that opens is closed, by either kind of bracket.
    """
    inner = ""
    for _ in range(_LEVELS - 1):
        inner = f"|{_level(_OPENING, inner)}"
    return _level(opening, inner)


_ANY_VALUE = rf"(?:{_WORD}|{_NUMBER}|{_nested(_OPENING)})"
ANY_OBJECT = _nested(r"\{")


class TooLargeError(ValueError):
    """The expression of a shape is so large that RE2 might refuse it."""


def pattern(kind: ColumnType) -> str:
    """Return a regular expression for values of a type, without null.

    It also matches the 30th of February, and numbers out of range.
    """
    if kind.domain is not Domain.DECIMAL:
        return _PATTERNS[kind.spelled]
    whole = kind.precision - kind.scale
    digits = rf"(?:0|[1-9][0-9]{{0,{whole - 1}}})" if whole else "0"
    return rf'"-?{digits}(?:\.[0-9]{{1,{kind.scale}}})?"' if kind.scale else rf'"-?{digits}"'


def members(values: Mapping[str, str], others: str | None = None) -> str:
    """Return an expression for a JSON object of members with these names and values, in any order.

    The caller checks that each name stands there once, and that none is missing.

    Args:
        values: the expression of each member's value, by name.
        others: the expression of other members, such as `undeclared` returns; `None` allows no others.
    """
    known = [rf'"{re.escape(name)}"{WS}:{WS}{value}' for name, value in values.items()]
    longest = max(known, key=len)
    rest = [*(each for each in known if each is not longest), *([] if others is None else [others])]
    return rf"\{{{WS}{_with_at_most_one(longest, rest)}{WS}\}}"


def _with_at_most_one(longest: str, rest: Sequence[str]) -> str:
    """Return an expression for members with commas between them, of which one does not stand there twice.

    Commas take two copies of what stands between them, and objects in objects then 2, 4, 8 copies. So an
    object that is longer than all members beside it is written once. Fourteen levels were too large for RE2.

    Args:
        longest: the expression of the longest member.
        rest: the expressions of the others, which may stand there several times.
    """
    if sum(map(len, rest)) >= len(longest):
        return _several(f"(?:{'|'.join([longest, *rest])})")
    if not rest:
        return f"(?:{longest})?"
    other = f"(?:{'|'.join(rest)})"
    return rf"(?:(?:{other}{WS},{WS})*(?:{longest}|{other})(?:{WS},{WS}{other})*)?"


def row(columns: Mapping[str, ColumnType], shape: Shape, *, ignoring: bool = False) -> str:
    """Return an expression for a JSON object with values of columns.

    Args:
        columns: the types of the columns, by name.
        shape: the declared members.
        ignoring: whether it may have other members, as in `shaped`.
    """
    values = {
        name: f"(?:{pattern(kind)}|null)" if kind.nullable else pattern(kind)
        for name, kind in columns.items()
    }
    return shaped(shape, values, ignoring=ignoring)


def shaped(
    shape: Shape,
    values: Mapping[str, str],
    *,
    ignoring: bool = False,
    counting: frozenset[str] = NEVER_IGNORED,
) -> str:
    """Return an expression for a JSON object whose members have a shape. An inner object may be null.

    Args:
        shape: the declared members.
        values: the expression of each column's value.
        ignoring: whether objects may have other members. Of their values, only the number of brackets is
            checked.
        counting: the members that are never ignored in the outermost object. In others, it is `$punctuation`
            alone, since each further name makes the expression of each object larger.

    Raises:
        TooLargeError: the shape has too many members in too many objects.
    """
    inner = {
        name: values[at]
        if isinstance(at, str)
        else f"(?:{shaped(at, values, ignoring=ignoring, counting=_WITHIN)}|null)"
        for name, at in shape.items()
    }
    found = members(inner, undeclared(counting.union(shape)) if ignoring else None)
    if len(found) > _MOST_CHARACTERS:  # an inner object is refused before the objects around it are written
        raise TooLargeError(f"an expression of {len(found):,} characters")
    return found


def require_size(columns: Mapping[str, ColumnType], shape: Shape, *, ignoring: bool) -> None:
    """Refuse a shape whose expressions would be too large, both for values of columns and for any scalars.

    Args:
        columns, shape, ignoring: the arguments of `row`.

    Raises:
        TooLargeError: the shape has too many members in too many objects.
    """
    values = {name: f"(?:{max(pattern(kind), ANY_SCALAR, key=len)}|null)" for name, kind in columns.items()}
    shaped(shape, values, ignoring=ignoring)


def undeclared(names: Iterable[str]) -> str:
    """Return an expression for a member that has none of these names. Its name has no escapes."""
    return rf'"{_none_of(names)}"{WS}:{WS}{_ANY_VALUE}'


def _none_of(words: Iterable[str]) -> str:
    """Return an expression for texts without escapes that are none of these words.

    RE2 cannot look ahead. So the expression spells where a text leaves the tree of the words: it goes on with
    another letter, or ends before a word does.
    """
    rests = sorted(set(words))
    goes_on = [rest for rest in rests if rest]
    firsts = "".join(re.escape(rest[0]) for rest in goes_on)
    branches = [rf'[^{firsts}"\\\x00-\x1f][^"\\\x00-\x1f]*']
    for first, those in groupby(goes_on, key=lambda rest: rest[0]):
        branches.append(re.escape(first) + _none_of(rest[1:] for rest in those))
    return f"(?:{'|'.join(branches)}){'' if '' in rests else '?'}"


def naming(columns: Mapping[str, ColumnType]) -> str:
    """Return an expression for a JSON object of patterns, each of which names one value of its column."""
    return members(
        {name: rf'\{{{WS}"equals"{WS}:{WS}{pattern(kind)}{WS}\}}' for name, kind in columns.items()}
    )


def example(kind: ColumnType) -> str:
    """Return an example of a value of a type, spelled as in a record."""
    if kind.spelling and kind.domain is not kind.spelled:
        return str(kind.spelling.number_of(from_scalar(json.loads(EXAMPLES[kind.domain]), kind.domain)))
    if kind.domain is not Domain.DECIMAL:
        return EXAMPLES[kind.domain]
    whole = "1" if kind.precision > kind.scale else "0"
    return f'"{whole}.{"5".ljust(kind.scale, "0")}"' if kind.scale else f'"{whole}"'
