"""The workload `news`: MJoin's running example as XML records with event times, and a table of sections."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa

from endmark_feed.message import EPOCH, Kind, Message, keyed
from endmark_feed.options import random_stream
from endmark_feed.papers.event import GAP_SECONDS, Event
from endmark_feed.papers.news import ACCESSES, News
from endmark_feed.relation import fill_table, master_table

ARTICLES, RECORDS = "news-articles", "news-accesses"
PARTITIONS = {ARTICLES: 2, RECORDS: 3}
_SECTIONS = {
    "Smart Card": "business",
    "Election": "politics",
    "World Cup": "sports",
    "Vaccine": "science",
    "Opera": "culture",
}
_KEYWORDS = [*_SECTIONS, "Miscellany"]  # the last one is in no section
_PER_ARTICLE = ACCESSES + 2  # records of an article: itself, its accesses and the punctuation that ends them
_BEGIN = datetime.fromisoformat(EPOCH)

sections_table = master_table(
    "sections",
    sa.Column("keyword", sa.String(60), primary_key=True),
    sa.Column("section", sa.String(60), nullable=False),
)


def fill(url: str, seed: int) -> int:
    """Create and fill the table of sections; return the number of rows written. The seed has no effect."""
    rows = [{"keyword": keyword, "section": section} for keyword, section in _SECTIONS.items()]
    return fill_table(url, sections_table, len(rows), [rows])


def messages(seed: int, seconds: float, rate: float) -> Iterator[Message]:
    """Yield the records of as many complete articles as fit, at least one. Event times never go back.

    Args:
        seed: equal seeds give equal records.
        seconds: the length of the run in event time.
        rate: the mean records a second of event time.
    """
    articles = max(1, round(seconds * rate / _PER_ARTICLE))
    pace = _PER_ARTICLE / ACCESSES / GAP_SECONDS / rate
    random = random_stream(seed, "readers")
    streams = (_events(topic, articles, seed) for topic in PARTITIONS)
    for topic, event in heapq.merge(*streams, key=lambda each: each[1].seconds):
        due = event.seconds * pace
        at = f"{(_BEGIN + timedelta(seconds=due)).isoformat(timespec='microseconds')}Z"
        if topic == ARTICLES:
            keyword = _KEYWORDS[event.key % len(_KEYWORDS)]
            value = (
                f"<info><sno>{event.key}</sno><title>{keyword} &amp; more, no. {event.key}</title>"
                f"<keyword>{keyword}</keyword><published_at>{at}</published_at></info>"
            )
            yield keyed(ARTICLES, PARTITIONS, event.key, value.encode(), due, Kind.ROW)
        elif event.closes:
            value = f"<punct:record><sno> {event.key} </sno><ipaddr> * </ipaddr></punct:record>"
            yield keyed(RECORDS, PARTITIONS, event.key, value.encode(), due, Kind.PUNCTUATION)
        else:
            reader = f"64.58.{random.integers(4)}.{random.integers(256)}"
            value = (
                f"<record><sno> {event.key} </sno><ipaddr> {reader} </ipaddr>"
                f"<accessed_at>{at}</accessed_at></record>"
            )
            yield keyed(RECORDS, PARTITIONS, event.key, value.encode(), due, Kind.ROW)


def _events(topic: str, articles: int, seed: int) -> Iterator[tuple[str, Event]]:
    side: Literal["articles", "accesses"] = "articles" if topic == ARTICLES else "accesses"
    for event in News(side, articles).events(seed):
        yield topic, event
