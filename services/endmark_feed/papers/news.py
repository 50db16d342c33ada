"""The streams of MJoin's experiments: news articles, and accesses to the latest of them.

Only the latest ten articles are accessible. When the oldest of these has had all its accesses, the access
stream closes it, and the next article appears. The paper does not give the number of accesses per article;
here it is ten, as in the sample that the paper prints.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from endmark_feed.options import random_stream
from endmark_feed.papers.event import GAP_SECONDS, Event

LATEST = 10
ACCESSES = 10


@dataclass(slots=True)
class _Article:
    key: int
    left: int = ACCESSES


@dataclass(frozen=True)
class News:
    """The stream `news-accesses`, `news-articles-ordered` or `news-articles-random[-block]`.

    The streams of both sides with one seed belong together.

    Args:
        side: whether the stream has the articles or the accesses.
        articles: the number of articles.
        block: the number of neighbouring articles whose keys are shuffled; with 1, keys ascend. Times do not
            depend on it.
    """

    side: Literal["articles", "accesses"]
    articles: int
    block: int = 1

    def events(self, seed: int) -> Iterator[Event]:
        if self.side == "accesses":
            return _accesses(self.articles, seed)
        return self._articles(seed)

    def _articles(self, seed: int) -> Iterator[Event]:
        random = random_stream(seed, "article order")
        keys = np.arange(self.articles)
        for first in range(0, self.articles, self.block):
            random.shuffle(keys[first : first + self.block])
        # An article takes the place of a closed one, but for the first articles, which come at the start.
        opened = [0.0] * LATEST + [event.seconds for event in _accesses(self.articles, seed) if event.closes]
        for serial, (key, seconds) in enumerate(zip(keys.tolist(), opened, strict=False)):
            yield Event(seconds, key, serial, closes=False)


def _accesses(articles: int, seed: int) -> Iterator[Event]:
    """Yield the accesses, and the punctuations that end them, in ascending order of articles."""
    random, gaps = random_stream(seed, "accesses"), random_stream(seed, "gaps")
    latest = deque(_Article(key) for key in range(min(LATEST, articles)))
    seconds, serial, unseen = 0.0, -1, len(latest)
    while latest:
        open_articles = [article for article in latest if article.left]
        article = open_articles[int(random.integers(len(open_articles)))]
        article.left -= 1
        seconds += gaps.exponential(GAP_SECONDS)
        serial += 1
        yield Event(seconds, article.key, serial, closes=False)
        while latest and not latest[0].left:
            yield Event(seconds, latest.popleft().key, serial, closes=True)
            if unseen < articles:
                latest.append(_Article(unseen))
                unseen += 1
