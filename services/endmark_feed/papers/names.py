"""The names of the papers' streams, and their conversion to streams."""

from __future__ import annotations

import re

from endmark.errors import ConfigError
from endmark_feed.papers.event import Workload
from endmark_feed.papers.news import News
from endmark_feed.papers.orders import ORDERS, Order
from endmark_feed.papers.punctuated_streams import Clusters, Segments, Uniform
from endmark_feed.papers.sales import Sales

FORMS = {
    "cluster-[asc|desc|random]-[size]": "about `size` rows of a value, its punctuation, then the next value",
    "punct-[asc|desc|random|window-random]-[segment]-[match]": (
        "segments of about `segment` rows, of which `match` percent have the value that is closed at the end"
    ),
    "punct-[...]-[segment]-[match]-useless": "the same rows, but punctuations close values that never come",
    "uniform-[domain]": "any of `domain` keys at any time, and no punctuation",
    "zipf-[products]-[exponent]-[rate]": (
        "`rate` rows a second in self-similar bursts, keys by Zipf's law, and no punctuation; has a relation"
    ),
    "news-accesses": "accesses to the latest ten articles, each closed by its last access",
    "news-articles-ordered": "the articles, by ascending key",
    "news-articles-random": "the articles, with their keys shuffled",
    "news-articles-random-[block]": "the articles, with the keys of each `block` of them shuffled",
}
"""The forms of names, each with a line about its stream."""
_MOST = 10_000_000  # a name is typed by hand, and a typing error should not fill the memory
_MOST_EXPONENT = 5
_ORDERS: dict[str, Order] = {order: order for order in ORDERS}


def parse_workload(name: str, values: int = 200, horizon: int = 10) -> Workload:
    """Return the stream of a name.

    Args:
        name: one of `FORMS` with numbers filled in, such as `punct-asc-30-40`; `match` is in percent.
        values: the number of keys that the stream closes, each by a segment, a cluster or an article. For
            `uniform` and `zipf`, which close no key, it is the number of rows.
        horizon: the number of next values that rows of a segment may also have.

    Raises:
        ConfigError: the name has none of the forms, or a number is out of its range.
    """
    _number("values", str(values))
    _number("horizon", str(horizon))
    match name.split("-"):
        case ["cluster", order, size]:
            return Clusters(_order(name, order), _number("size", size), values)
        case ["punct", *order, segment, match, "useless"] | ["punct", *order, segment, match]:
            return Segments(
                _order(name, "-".join(order)),
                _number("segment", segment),
                _number("match", match, 100),
                values,
                horizon,
                useless=name.endswith("-useless"),
            )
        case ["uniform", domain]:
            return Uniform(_number("domain", domain), values)
        case ["zipf", products, exponent, rate]:
            return Sales(
                _number("products", products), _exponent(exponent), _number("rate", rate, 200_000), values
            )
        case ["news", "accesses"]:
            return News("accesses", values)
        case ["news", "articles", *order]:
            return News("articles", values, _block(name, order, values))
        case _:
            raise _unknown(name)


def _block(name: str, order: list[str], articles: int) -> int:
    """Return the number of neighbouring articles that are shuffled together; 1 keeps their order."""
    match order:
        case ["ordered"]:
            return 1
        case ["random"]:
            return articles
        case ["random", block]:
            return _number("block", block)
        case _:
            raise _unknown(name)


def _order(name: str, order: str) -> Order:
    if order not in _ORDERS or (order == "window-random" and name.startswith("cluster")):
        raise _unknown(name)
    return _ORDERS[order]


def _number(what: str, digits: str, most: int = _MOST) -> int:
    if not digits.isdecimal() or not 1 <= int(digits) <= most:
        raise ConfigError(f"{what} of a workload is {digits}; choose a number from 1 to {most:,}")
    return int(digits)


def _exponent(digits: str) -> float:
    # Ten digits are more than anybody needs, and `float` would also take "nan" and "1e9".
    if not re.fullmatch(r"[0-5](\.\d{1,10})?", digits) or float(digits) > _MOST_EXPONENT:
        raise ConfigError(
            f"exponent of a workload is {digits}; choose a number from 0 to {_MOST_EXPONENT}, such as 1.25"
        )
    return float(digits)


def _unknown(name: str) -> ConfigError:
    return ConfigError(f"there is no workload {name!r}; choose one of {', '.join(FORMS)}")
