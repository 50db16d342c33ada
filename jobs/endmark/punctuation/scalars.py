"""Converts one value to and from a JSON scalar, spelled as in data records.

A long, a double and a boolean are JSON's own. A decimal is a string such as "12.50", a date is one such as
"2026-01-31", and a timestamp is one such as "2026-01-31T00:00:00.000000Z" with at most six digits of a
second. Instead of Z, a timestamp may have an offset from UTC of up to 18 hours, such as +02:00.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal

from endmark.domain import Domain, PunctuationError, Value

Scalar = bool | int | float | str

ZONE = "(?:Z|[+-](?:(?:0[0-9]|1[0-7]):[0-5][0-9]|18:00))"  # a regular expression
_SPELLED = {
    Domain.DECIMAL: re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"),
    Domain.DATE: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    Domain.TIMESTAMP: re.compile(
        rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,6}})?{ZONE}"
    ),
}
EXAMPLES = {
    Domain.LONG: "42",
    Domain.DOUBLE: "1.5",
    Domain.STRING: '"a"',
    Domain.BOOLEAN: "true",
    Domain.DATE: '"2026-01-31"',
    Domain.TIMESTAMP: '"2026-01-31T00:00:00.000000Z"',
    Domain.DECIMAL: '"12.50"',
}
TEXTS = (Domain.STRING, *_SPELLED)  # the domains whose values stand in quotes


def to_scalar(value: Value, domain: Domain) -> Scalar:
    """Return the JSON scalar of a value of a domain. Equal values have one spelling."""
    return scalar_of(domain.coerce(value))


def scalar_of(value: Value) -> Scalar:
    """Return the JSON scalar of a value without a change; a decimal keeps the zeros at its end."""
    match value:
        case Decimal() as number:
            return format(number, "f")
        case datetime() as time:
            return f"{time.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
        case date() as day:
            return day.isoformat()
        case plain:
            return plain


def from_scalar(scalar: Scalar, domain: Domain) -> Value:
    """Read a JSON scalar as a value of a domain.

    Raises:
        PunctuationError: the scalar is no value of the domain.
    """
    if domain in _SPELLED:
        value = _spelled(scalar, domain)
        plain = domain.coerce(value)
        return value if domain is Domain.DECIMAL else plain
    if domain is Domain.DOUBLE and type(scalar) is int:
        return domain.coerce(_nearest(scalar))
    return domain.coerce(scalar)


def _nearest(whole: int) -> float:
    """The double nearest to an integer: a producer may write the double 2**60 as 1152921504606847000."""
    try:
        return float(whole)
    except OverflowError:
        raise PunctuationError(f"{whole} is beyond all doubles") from None


def _spelled(scalar: Scalar, domain: Domain) -> Value:
    if not isinstance(scalar, str) or not _SPELLED[domain].fullmatch(scalar):
        raise PunctuationError(f"{scalar!r} is no {domain.value} such as {EXAMPLES[domain]}")
    if domain is Domain.DECIMAL:
        return Decimal(scalar)
    try:
        if domain is Domain.DATE:
            return date.fromisoformat(scalar)
        return datetime.fromisoformat(scalar).astimezone(UTC)
    except (ValueError, OverflowError) as error:  # an offset may lead out of the years 1 to 9999
        raise PunctuationError(f"{scalar!r} is no {domain.value}: {error}") from None
