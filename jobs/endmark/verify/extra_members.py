"""Leaves out the members of rows that are not declared, where `extra: ignore` says so, one record at a time.

Such a member may hold anything and stand any number of times, but the record must be JSON as a whole. A
declared member, and `$punctuation`, is as strict as ever: it counts, and stands there once.
"""

from __future__ import annotations

import json
from typing import Any

from endmark.pipeline import Stream
from endmark.verify.debezium import integer
from endmark.verify.patterns import MARK


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in their order; a name may stand twice."""


def without_extra(value: bytes, declared: Stream) -> bytes:
    """Return a row of flat JSON without the members that do not count, and any other record as it is."""
    if declared.extra != "ignore":
        return value
    try:
        members = json.loads(
            value.decode("utf-8"), object_pairs_hook=_Pairs, parse_constant=_refuse, parse_int=integer
        )
        json.dumps(members, ensure_ascii=False).encode("utf-8")  # raises for half a surrogate pair
    except (ValueError, RecursionError):
        return value
    if not isinstance(members, _Pairs) or any(member == MARK for member, _ in members):
        return value
    counting = [pair for pair in members if pair[0] in declared.columns]
    if len(dict(counting)) < len(counting):
        return value
    return json.dumps(dict(counting), ensure_ascii=False).encode()


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
