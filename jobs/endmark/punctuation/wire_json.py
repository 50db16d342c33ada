"""Punctuations as JSON records.

    {"$punctuation": {"item_id": {"equals": 42}}}

A pattern is an object with one member: `{"anything": true}`, `{"equals": 42}`, `{"one_of": [1, 2]}`,
`{"between": {"from": 1, "to": 9, "from_open": true, "to_open": true}}` or `{"nothing": true}`. An interval
leaves out an unbounded end. Its ends are closed, unless `from_open` or `to_open` is true. At least one
attribute is named, so that a producer's slip cannot close the whole stream. The end of a stream is written
`{"item_id": {"anything": true}}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from pydantic import TypeAdapter, ValidationError

from endmark.domain import Domain, PunctuationError
from endmark.punctuation.json_shape import (
    MEMBER,
    AnythingShape,
    BetweenShape,
    EqualsShape,
    NothingShape,
    OneOfShape,
    PatternShape,
    PunctuationShape,
)
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.scalars import from_scalar, to_scalar

PatternJson = dict[str, Any]
_PATTERN: TypeAdapter[PatternShape] = TypeAdapter(PatternShape)


def encode(punctuation: Punctuation, domains: Mapping[str, Domain]) -> bytes:
    """Return the record of a punctuation, for the topic of its stream."""
    return json.dumps({MEMBER: _written(punctuation, domains)}, ensure_ascii=False, allow_nan=False).encode()


def encode_patterns(punctuation: Punctuation, domains: Mapping[str, Domain]) -> str:
    """Return the JSON object of a punctuation's patterns: the value of `$punctuation` in its record."""
    return json.dumps(_written(punctuation, domains), ensure_ascii=False, allow_nan=False)


def _written(punctuation: Punctuation, domains: Mapping[str, Domain]) -> dict[str, PatternJson]:
    patterns = dict(punctuation.patterns) or {min(domains): Anything()}
    return {name: pattern_to_json(pattern, domains[name]) for name, pattern in patterns.items()}


def decode(
    record: bytes, stream: str, domains: Mapping[str, Domain], origin: Origin | None = None
) -> Punctuation:
    """Read the punctuation of a JSON record.

    Args:
        record: the bytes of the record.
        stream: the name of the stream.
        domains: the domains of the stream's attributes.
        origin: the coordinates of the record in its topic; `None` if it has none.

    Raises:
        PunctuationError: the bytes are no punctuation.
    """
    return _decoded(_read(record), stream, domains, origin)


def decode_patterns(text: bytes, stream: str, domains: Mapping[str, Domain]) -> Punctuation:
    """Read a punctuation from the JSON object of its patterns.

    Args:
        text: the JSON object, in UTF-8.
        stream: the name of the stream.
        domains: the domains of the stream's attributes.

    Raises:
        PunctuationError: the text is not such an object.
    """
    return _decoded({MEMBER: _read(text)}, stream, domains, None)


def _decoded(record: Any, stream: str, domains: Mapping[str, Domain], origin: Origin | None) -> Punctuation:
    try:
        shape = PunctuationShape.model_validate(record)
    except ValidationError as error:
        raise _one_line(error) from None
    return Punctuation.read(stream, shape.patterns, domains, _typed, origin)


def pattern_to_json(pattern: Pattern, domain: Domain) -> PatternJson:
    """Return a pattern as a JSON object with one member."""
    match pattern:
        case Anything():
            return {"anything": True}
        case Equals(value):
            return {"equals": to_scalar(value, domain)}
        case OneOf(values):
            return {"one_of": [to_scalar(value, domain) for value in sorted(values)]}
        case Between():
            return {"between": _ends(pattern, domain)}
        case Nothing():
            return {"nothing": True}


def pattern_from_json(pattern: PatternJson, domain: Domain) -> Pattern:
    """Read a pattern from its JSON object.

    Raises:
        PunctuationError: the object is no pattern of the domain.
    """
    try:
        return _typed(_PATTERN.validate_python(pattern), domain)
    except ValidationError as error:
        raise _one_line(error) from None


def _ends(pattern: Between, domain: Domain) -> PatternJson:
    ends: PatternJson = {}
    if pattern.low is not None:
        ends["from"] = to_scalar(pattern.low, domain)
    if pattern.high is not None:
        ends["to"] = to_scalar(pattern.high, domain)
    if pattern.low_open:
        ends["from_open"] = True
    if pattern.high_open:
        ends["to_open"] = True
    return ends


def _typed(shape: PatternShape, domain: Domain) -> Pattern:
    match shape:
        case AnythingShape():
            return Anything()
        case EqualsShape(equals=value):
            return Equals(from_scalar(value, domain))
        case OneOfShape(one_of=values):
            return OneOf(frozenset(from_scalar(value, domain) for value in values))
        case BetweenShape(between=ends):
            low, high = (None if end is None else from_scalar(end, domain) for end in (ends.low, ends.high))
            return Between(low, high, ends.low_open, ends.high_open)
        case NothingShape():
            return Nothing()


def _read(record: bytes) -> Any:
    try:
        return json.loads(record.decode(), object_pairs_hook=_no_duplicates, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise PunctuationError(f"byte {error.start} is not UTF-8") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise PunctuationError(f"not JSON: {error}") from None
    except ValueError as error:  # an error of our hooks, or a number of thousands of digits
        raise PunctuationError(str(error)) from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise PunctuationError(f"member {first_twice(name for name, _ in pairs)!r} stands twice")
    return members


def first_twice(names: Iterable[str]) -> str:
    """Return the first name that equals an earlier one, in one pass.

    A record of 830 kB has room for 90,000 names. Counting each of them among all others took 309 s.

    Raises:
        ValueError: all names are different.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    raise ValueError("no name stands twice")


def _refuse_constant(name: str) -> Any:
    raise PunctuationError(f"{name} is not JSON")


def _one_line(error: ValidationError) -> PunctuationError:
    first = error.errors(include_url=False, include_input=False)[0]
    # Pydantic's location of an error names validators among the members, and a pattern before its member.
    location = [part for part in map(str, first["loc"]) if not part.startswith("function-")]
    where = ".".join(part for before, part in pairwise(["", *location]) if part != before)
    return PunctuationError(f"{where or 'the record'}: {first['msg'].removeprefix('Value error, ')}")
