"""The values of random worlds: usual ones, and those at the ends of their types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from support.verify_histories import PRICES
from support.verify_world import EPOCH

Spelling = Callable[[int], Any]

# The types of key columns, and how each spells a number from 0 to 8. Decimals fall while numbers rise.
KEY_TYPES: dict[str, Spelling] = {
    "long": lambda n: n,
    "string": lambda n: "\u00fc" * n,
    "date": lambda n: f"2026-01-0{n + 1}",
    "decimal(6,2)": lambda n: f"-{n}.5",
    "timestamp": lambda n: f"2026-01-01T00:00:00.{n}Z",
    "boolean": lambda n: n % 2 == 0,
}
# Columns beside the key, of which `seller_id` is in each stream, and how each spells the number of a seller.
OWN: dict[str, tuple[str, Spelling]] = {
    "seller_id": ("long", lambda n: n),
    "price": ("double", lambda n: PRICES[n % 3]),
    "tip": ("decimal(6,2)", lambda n: f"{n}.5"),
    "urgent": ("boolean", lambda n: n % 2 == 0),
    "note": ("string", lambda n: "" if n == 3 else f"bid \u00fc {n}"),
    "due": ("date", lambda n: f"2026-01-{10 + n}"),
}
_AT_ENDS: dict[str, list[Any]] = {
    "long": [-(2**63), 1 - 2**63, -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1],
    # They are in the order of bytes. Two look alike, two have other orders in UTF-16 and in UTF-8.
    "string": ["", "\0", "$A?{}'\\\"" * 500, "a", "a\0", "a\u0301", "\u00e1", "\uffff", "\U0001f600"],
    "date": [
        *("0001-01-01", "0001-01-02", "1582-10-10", "1900-02-28", "1969-12-31"),
        *("1970-01-01", "2000-02-29", "9999-12-30", "9999-12-31"),
    ],
    "decimal(6,2)": ["9999.99", "9999.98", "10", "0.01", "-0.0", "-0.01", "-9.5", "-9999.98", "-9999.99"],
    "timestamp": [
        *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000001Z", "1582-10-10T00:00:00Z"),
        *("1969-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000001Z"),
        *("2026-01-01T00:00:00+18:00", "9999-12-31T23:59:59.999998Z", "9999-12-31T23:59:59.999999Z"),
    ],
}
_OWN_AT_ENDS: dict[str, list[Any]] = {
    "price": [0.0, -0.0, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308],
    "tip": ["0", "-0.00", "9999.99", "-9999.99", "0.01"],
    "note": ["", "\0", "a\u0301", "", "\u00e1" * 3000],
    "due": ["1970-01-01", "0001-01-01", "1969-12-31", "9999-12-31", "1582-10-10"],
}


@dataclass(frozen=True)
class Values:
    """How a world spells numbers and times.

    Args:
        keys: the spelling of key columns, by type.
        own: the spelling of other columns, by name.
        epoch: the time at which a world begins. Times do not leave the years 1 to 9999.
    """

    keys: Mapping[str, Spelling]
    own: Mapping[str, Spelling]
    epoch: datetime = EPOCH

    def instant(self, seconds: float) -> str:
        """The time of so many seconds behind the beginning, or the first or last one of all."""
        try:
            found = self.epoch + timedelta(seconds=seconds)
        except OverflowError:
            found = _FIRST if seconds < 0 else _LAST
        return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
USUAL = Values(KEY_TYPES, {name: spelling for name, (_, spelling) in OWN.items()})
AT_ENDS = Values(
    KEY_TYPES | {kind: values.__getitem__ for kind, values in _AT_ENDS.items()},
    dict(USUAL.own) | {name: values.__getitem__ for name, values in _OWN_AT_ENDS.items()},
)
# Event times of these worlds are the first ones of all, around 1970, or the last ones of all.
EPOCHS = [_FIRST + timedelta(seconds=2), datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=4)]
LAST_EPOCH = _LAST - timedelta(seconds=8)
