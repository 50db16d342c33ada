"""Nexmark's generator, as columns: an auction house of persons, auctions and bids, 1 : 3 : 46 of 50 events.

Which event is what, whom it is about and when it was follow from its number, as in the generator of Apache
Beam and of nexmark/nexmark. That generator knows more than its streams say: ids are given out in order, and
events speak of the newest ids alone. Here it says so, in punctuations.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from endmark_benchmarks.workloads.nexmark import texts
from endmark_feed.message import EPOCH
from endmark_feed.options import random_stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

PERSONS, AUCTIONS, BIDS = "persons", "auctions", "bids"
SHARES = {PERSONS: 1, AUCTIONS: 3, BIDS: 46}
EPOCH_EVENTS = sum(SHARES.values())
_AT = pa.timestamp("us", "UTC")
SCHEMAS = {
    PERSONS: pa.schema(
        [
            ("id", pa.int64()),
            *((name, pa.string()) for name in ("name", "email_address", "credit_card", "city", "state")),
            ("date_time", _AT),
            ("extra", pa.string()),
        ]
    ),
    AUCTIONS: pa.schema(
        [
            ("id", pa.int64()),
            *((name, pa.string()) for name in ("item_name", "description")),
            *((name, pa.int64()) for name in ("initial_bid", "reserve")),
            *((name, _AT) for name in ("date_time", "expires")),
            *((name, pa.int64()) for name in ("seller", "category")),
            ("extra", pa.string()),
        ]
    ),
    BIDS: pa.schema(
        [
            *((name, pa.int64()) for name in ("auction", "bidder", "price")),
            *((name, pa.string()) for name in ("channel", "url")),
            ("date_time", _AT),
            ("extra", pa.string()),
        ]
    ),
}
CATEGORIES = range(10, 15)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
FIRST_ID = 1_000  # of persons and of auctions
IN_FLIGHT = 100  # auctions before the newest that bids are for
ACTIVE = 1_000  # newest persons, who sell and bid
LEAD = 10  # ids after the newest that others already speak of
_HOT = 100  # the first of so many ids in a row is hot
_HOT_AUCTION, _HOT_PERSON = 2, 4  # all but one in so many choose the hot one
_ADVANCE = 953  # of the next event in a group that is out of order


@dataclass(frozen=True)
class Generator:
    """Equal arguments give equal rows.

    Args:
        seed: of everything random.
        rate: events for each second of event time.
        group: events in a row that come out of order, the standard's `outOfOrderGroupSize`; no multiple of
            953.
    """

    seed: int = 1
    rate: int = 10_000
    group: int = 1

    def rows(
        self, first: int, events: int, streams: Sequence[str] = tuple(SHARES)
    ) -> dict[str, pa.RecordBatch]:
        """Return the rows of some events by stream, in the order in which they come.

        Without the streams that `SHARES` has last, the rows of the others are the same.

        Args:
            first: the number of the first event.
            events: the number of events.
            streams: the streams that are returned.
        """
        come = np.arange(first, first + events)
        numbers = come // self.group * self.group + come * _ADVANCE % self.group
        place = numbers % EPOCH_EVENTS
        random = random_stream(self.seed, f"nexmark {first}")
        made = _Made(random, self.rate)
        ways = {
            PERSONS: (made.persons, place == 0),
            AUCTIONS: (made.auctions, (place > 0) & (place <= SHARES[AUCTIONS])),
            BIDS: (made.bids, place > SHARES[AUCTIONS]),
        }
        return {
            name: pa.record_batch(columns_of(numbers[mine]), SCHEMAS[name])
            for name, (columns_of, mine) in ways.items()
            if name in streams
        }

    def promises(self, events: int) -> dict[str, list[str]]:
        """Return the promises of each stream once `events` events have come, as texts of punctuations.

        Each says that ids up to one are over. A group that is out of order counts when all of it has come.
        """
        number = np.array([events // self.group * self.group])
        person, auction = int(_newest_person(number)[0]), int(_newest_auction(number)[0])
        place = int(number[0]) % EPOCH_EVENTS
        # The newest one may be the event that is next.
        last_person = person - (place == 0)
        last_auction = auction - (0 < place <= SHARES[AUCTIONS])
        # Hot ones are newer than the oldest of the others.
        seller, bid_on = max(0, person + 1 - ACTIVE), max(0, auction - IN_FLIGHT)
        return {
            PERSONS: [_up_to("id", last_person)],
            AUCTIONS: [_up_to("id", last_auction), _up_to("seller", seller - 1)],
            BIDS: [_up_to("auction", bid_on - 1)],
        }


class Span(NamedTuple):
    """Milliseconds that a row may be older, and newer, than the row it speaks of."""

    before: int
    after: int

    @classmethod
    def of(cls, about: str, rate: int) -> Span:
        """Return the span of punctuations that speak of a stream's rows by their ids."""
        behind = {PERSONS: ACTIVE, AUCTIONS: IN_FLIGHT}[about]
        before, after = ((ids // SHARES[about] + 2) * EPOCH_EVENTS for ids in (LEAD, behind))
        return cls(before * 1_000 // rate + 1, after * 1_000 // rate + 1)


def newest_auction(number: int) -> int:
    """The id of the newest auction when an event comes."""
    return FIRST_ID + int(_newest_auction(np.array([number]))[0])


@dataclass(frozen=True)
class _Made:
    """The columns of events by their numbers, ids counted from 0 until they are shown."""

    random: np.random.Generator
    rate: int

    def persons(self, numbers: Ints) -> list[pa.Array]:
        count, random = len(numbers), self.random
        own = texts.person(random, count)
        columns = [*own.values(), texts.chosen(random, STATES, count)]
        extra = texts.filling(random, [8, *columns], 200, count)
        return [pa.array(FIRST_ID + _newest_person(numbers)), *columns, self._times(numbers), extra]

    def auctions(self, numbers: Ints) -> list[pa.Array]:
        count, random = len(numbers), self.random
        newest = _newest_person(numbers)
        seller = np.where(
            random.integers(_HOT_PERSON, size=count) > 0, newest // _HOT * _HOT, self._active(newest)
        )
        # As long as it takes to open the auctions that are in flight, on average.
        most = 2 * 1_000 * (IN_FLIGHT * EPOCH_EVENTS // SHARES[AUCTIONS]) // self.rate
        length = 1 + random.integers(max(most, 1), size=count)
        initial = self._prices(count)
        name, description = texts.words(random, 3, 20, count), texts.words(random, 3, 100, count)
        return [
            pa.array(FIRST_ID + _newest_auction(numbers)),
            name,
            description,
            pa.array(initial),
            pa.array(initial + self._prices(count)),
            self._times(numbers),
            self._times(numbers, length),
            pa.array(FIRST_ID + seller),
            pa.array(random.integers(CATEGORIES.start, CATEGORIES.stop, size=count)),
            texts.filling(random, [48, name, description], 500, count),
        ]

    def bids(self, numbers: Ints) -> list[pa.Array]:
        count, random = len(numbers), self.random
        newest, person = _newest_auction(numbers), _newest_person(numbers)
        oldest = np.maximum(newest - IN_FLIGHT, 0)
        any_auction = oldest + _below(random, newest - oldest + 1 + LEAD)
        auction = np.where(random.integers(_HOT_AUCTION, size=count) > 0, newest // _HOT * _HOT, any_auction)
        # The second one, so that hot bidders are not hot sellers.
        hot = person // _HOT * _HOT + 1
        bidder = np.where(random.integers(_HOT_PERSON, size=count) > 0, hot, self._active(person))
        return [
            pa.array(FIRST_ID + auction),
            pa.array(FIRST_ID + bidder),
            pa.array(self._prices(count)),
            *texts.channels(random, count),
            self._times(numbers),
            texts.filling(random, [32], 100, count),
        ]

    def _active(self, newest: Ints) -> Ints:
        active = np.minimum(newest + 1, ACTIVE)
        return newest + 1 - active + _below(self.random, active + LEAD)

    def _prices(self, count: int) -> Ints:
        return np.round(10 ** (self.random.random(count) * 6) * 100).astype(np.int64)

    def _times(self, numbers: Ints, later: Ints | int = 0) -> pa.Array:
        """Return event times in whole milliseconds, as the standard has them."""
        since = (numbers * 1_000 // self.rate + later).astype("timedelta64[ms]")
        return pa.array((np.datetime64(EPOCH, "us") + since).astype("datetime64[us]"), _AT)


def _newest_person(numbers: Ints) -> Ints:
    return numbers // EPOCH_EVENTS


def _newest_auction(numbers: Ints) -> Ints:
    """The last one before an event, or the event itself; -1 before the first."""
    epoch, place = np.divmod(numbers, EPOCH_EVENTS)
    return epoch * SHARES[AUCTIONS] + np.minimum(place, SHARES[AUCTIONS]) - 1


def _below(random: np.random.Generator, ends: Ints) -> Ints:
    return (random.random(len(ends)) * ends).astype(np.int64)


def _up_to(column: str, base: int) -> str:
    return json.dumps({column: {"between": {"to": FIRST_ID + base}}})
