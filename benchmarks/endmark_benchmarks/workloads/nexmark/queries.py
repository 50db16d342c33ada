"""The queries in SQL that Spark and DuckDB read alike, and what their answers are hashed by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark_benchmarks.harness.digest import code, figures
from endmark_benchmarks.workloads.nexmark.events import AUCTIONS, BIDS, PERSONS

if TYPE_CHECKING:
    from endmark_benchmarks.workloads.nexmark.record import Recording


@dataclass(frozen=True)
class Query:
    """One of the standard's.

    Args:
        title: behind its name.
        streams: that it reads.
        sql: of the standard, over views of the streams; `{bound}` takes a condition on the times of a
            pair, `{period}` that which a time is in.
        about: the stream that rows of the other one speak of, and the times of a pair, that of the row that
            speaks first; `None` if no streams are joined.
        digest: what both halves of an answer are hashed by, `{micros}` around a time.
        left_out: contenders that cannot answer it, or only as another does.
        groups: whether answers are groups of an auction's rows.
    """

    title: str
    streams: tuple[str, ...]
    sql: str
    about: tuple[str, str, str] | None
    digest: tuple[tuple[str, ...], tuple[str, ...]]
    left_out: tuple[str, ...] = ()
    groups: bool = False

    def standard(self, micros: str) -> str:
        """Return the query as the standard has it; `micros` is the function that makes a number of a time."""
        return self.sql.format(bound="", period=_PERIOD.format(micros=micros))

    def bounded(self, recording: Recording, micros: str) -> str:
        """Return the query with bounds on the time between rows that the generator pairs."""
        if self.about is None:
            return self.standard(micros)
        stream, speaks, spoken_of = self.about
        span = recording.span(stream)
        first = f"{spoken_of} - INTERVAL {span.before} MILLISECONDS"
        last = f"{spoken_of} + INTERVAL {span.after} MILLISECONDS"
        bound = f"AND {speaks} BETWEEN {first} AND {last}"
        return self.sql.format(bound=bound, period=_PERIOD.format(micros=micros))

    def counted(self, recording: Recording) -> str:
        """SQL of which answers count: of groups those that are final for everybody at the end."""
        return f"id < {recording.settled}" if self.groups else "true"

    def figures(self, micros: str) -> list[str]:
        """SQL of the digest of answers; `micros` as of `standard`."""
        left, right = (code(*(each.format(micros=micros) for each in half)) for half in self.digest)
        return figures(left, right)


# The start of ten seconds, in microseconds.
_PERIOD = "{micros}(date_time) - MOD({micros}(date_time), 10000000)"


def _text(name: str) -> str:
    """A number of a text: its length, and the first two letters."""
    return f"(ASCII({name}) + 128 * ASCII(SUBSTR({name}, 2, 1)) + 16384 * CHAR_LENGTH({name}))"


QUERIES = {
    "q3": Query(
        "local item suggestion",
        (PERSONS, AUCTIONS),
        """
SELECT P.name, P.city, P.state, A.id
FROM auctions A JOIN persons P ON A.seller = P.id {bound}
WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
        (PERSONS, "A.date_time", "P.date_time"),
        (("id", _text("name")), (_text("city"), _text("state"))),
    ),
    "q4": Query(
        "winning bids by category",
        (AUCTIONS, BIDS),
        """
SELECT A.id, A.category, MAX(B.price) AS winning
FROM auctions A JOIN bids B
ON A.id = B.auction AND B.date_time BETWEEN A.date_time AND A.expires {bound}
GROUP BY A.id, A.category, A.date_time""",  # the last one is what tells Spark when a group is final
        (AUCTIONS, "B.date_time", "A.date_time"),
        (("id", "category"), ("winning",)),
        left_out=("spark",),
        groups=True,
    ),
    "q8": Query(
        "new users who sell at once",
        (PERSONS, AUCTIONS),
        """
SELECT P.id, P.name, P.period
FROM (SELECT id, name, date_time, {period} AS period FROM persons) P
SEMI JOIN (SELECT seller, date_time, {period} AS period FROM auctions) A
ON P.id = A.seller AND P.period = A.period {bound}""",
        (PERSONS, "A.date_time", "P.date_time"),
        (("id", _text("name")), ("period",)),
        left_out=("spark",),
    ),
    "q13": Query(
        "bids with a side input",
        (BIDS,),
        """
SELECT B.auction, B.bidder, B.price, B.date_time, S.value
FROM bids B JOIN side_input S ON MOD(B.auction, 10000) = S.key""",
        None,
        (("auction", "bidder", "price"), ("{micros}(date_time)", "CAST(value AS BIGINT)")),
        left_out=("spark-bounded",),
    ),
    "q20": Query(
        "bids with their auctions",
        (AUCTIONS, BIDS),
        """
SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.date_time AS bid_time, B.extra AS bid_extra,
A.item_name, A.description, A.initial_bid, A.reserve, A.date_time AS auction_time, A.expires, A.seller,
A.category, A.extra AS auction_extra
FROM bids B JOIN auctions A ON B.auction = A.id {bound}
WHERE A.category = 10""",
        (AUCTIONS, "B.date_time", "A.date_time"),
        (
            (
                "auction + 3 * price",
                "{micros}(bid_time)",
                "bidder",
                f"{_text('channel')} + 3 * {_text('url')} + 7 * {_text('bid_extra')}",
            ),
            (
                "seller + 3 * category + 7 * initial_bid",
                "{micros}(auction_time) + {micros}(expires)",
                "reserve",
                f"{_text('item_name')} + 3 * {_text('description')} + 7 * {_text('auction_extra')}",
            ),
        ),
    ),
}
