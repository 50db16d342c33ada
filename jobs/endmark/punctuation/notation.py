"""Reads patterns in the notation of the papers.

A pattern is `*` for anything, a constant, a list such as `{1, 2}`, an interval such as `[1, 9]` with round
brackets at open ends, or `∅` for nothing. An unbounded end has no value, as in `(, 9]`. Values are spelled as
in JSON, but without quotes. Blanks around them do not count. A text that could be taken for something else is
a JSON string with JSON's escapes: `"*"` is a star, and `""` is the empty text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from endmark.domain import Domain, PunctuationError, Value
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark.punctuation.scalars import TEXTS, from_scalar

_MARKS = re.escape("*∅{}[](),")
_TOKEN = re.compile(
    rf'(?P<mark>[{_MARKS}])|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<plain>[^\s"{_MARKS}][^"{_MARKS}]*)|(?P<blank>\s+)'
)

_Token = str | Equals  # a mark or a value


def from_notation(text: str, domain: Domain) -> Pattern:
    """Read a pattern in the papers' notation.

    Raises:
        PunctuationError: the text is no pattern of the domain.
    """
    match list(_tokens(text, domain)):
        case ["*"]:
            return Anything()
        case ["∅"]:
            return Nothing()
        case [Equals() as constant]:
            return constant
        case ["{", *items, "}"]:
            return _list(items, text)
        case ["[" | "(" as opening, *ends, "]" | ")" as closing]:
            low, high = _ends(ends, text)
            return Between(low, high, opening == "(", closing == ")")
    raise _unreadable(text)


def _list(items: Sequence[_Token], text: str) -> OneOf:
    values = [item.value for item in items[::2] if isinstance(item, Equals)]
    commas = [item for item in items[1::2] if item == ","]
    if len(values) + len(commas) < len(items) or len(values) == len(commas) > 0:
        raise _unreadable(text)
    return OneOf(frozenset(values))


def _ends(ends: Sequence[_Token], text: str) -> tuple[Value | None, Value | None]:
    match ends:
        case [","]:
            return None, None
        case [Equals(low), ","]:
            return low, None
        case [",", Equals(high)]:
            return None, high
        case [Equals(low), ",", Equals(high)]:
            return low, high
    raise _unreadable(text)


def _tokens(text: str, domain: Domain) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _unreadable(text)
        at = token.end()
        if token.lastgroup == "mark":
            yield token[0]
        elif token.lastgroup != "blank":
            yield Equals(_value(token[0].rstrip(), token.lastgroup == "quoted", domain))


def _value(spelled: str, quoted: bool, domain: Domain) -> Value:
    if domain in TEXTS and not quoted:
        return from_scalar(spelled, domain)
    try:
        scalar = json.loads(spelled)
    except ValueError:
        raise PunctuationError(f"{spelled[:80]} is no {domain.value}") from None
    return from_scalar(scalar, domain)


def _unreadable(text: str) -> PunctuationError:
    forms = "*, a constant, {1, 2}, [1, 9], (1, 9), (, 9] or ∅; other text goes in double quotes"
    return PunctuationError(f"{text.strip()[:80]!r} is no pattern: write {forms}")
