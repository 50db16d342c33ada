"""Punctuations as XML, written: the service only reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from xml.sax.saxutils import escape

from endmark.domain import Domain, Value
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark.punctuation.punctuation import Punctuation
from endmark.punctuation.scalars import to_scalar
from endmark.punctuation.wire_xml import RECORD

_PLAIN_TEXT = re.compile(r"[\w.:/@+-]+(?: [\w.:/@+-]+)*")


def encode(punctuation: Punctuation, domains: Mapping[str, Domain]) -> bytes:
    """Return a record with an element for every attribute of the stream."""
    patterns = dict(punctuation.patterns)
    elements = []
    for name, domain in domains.items():
        notation = escape(to_notation(patterns.get(name, Anything()), domain))
        elements.append(f"<{name}>{notation}</{name}>")
    return f"<{RECORD}>{''.join(elements)}</{RECORD}>".encode()


def to_notation(pattern: Pattern, domain: Domain) -> str:
    """Return a pattern in the papers' notation, as `endmark.punctuation.notation` reads it."""
    match pattern:
        case Anything():
            return "*"
        case Equals(value):
            return _spelled(value, domain)
        case OneOf(values):
            return f"{{{', '.join(sorted(_spelled(value, domain) for value in values))}}}"
        case Between(low, high, low_open, high_open):
            opening = "(" if low_open or low is None else "["
            closing = ")" if high_open or high is None else "]"
            return f"{opening}{_end(low, domain)}, {_end(high, domain)}{closing}"
        case Nothing():
            return "∅"


def _end(value: Value | None, domain: Domain) -> str:
    return "" if value is None else _spelled(value, domain)


def _spelled(value: Value, domain: Domain) -> str:
    scalar = to_scalar(value, domain)
    if isinstance(scalar, str) and _PLAIN_TEXT.fullmatch(scalar):
        return scalar
    return json.dumps(scalar)
