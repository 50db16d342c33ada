"""The names of the papers' streams, and their conversion to streams."""

from __future__ import annotations

from endmark.errors import ConfigError
from endmark_feed.papers.event import Workload
from endmark_feed.papers.news import News
from endmark_feed.papers.orders import ORDERS, Order
from endmark_feed.papers.punctuated_streams import Clusters, Segments, Uniform

FORMS = (
    "cluster-[asc|desc|random]-[size]",
    "punct-[asc|desc|random|window-random]-[segment]-[match]",
    "punct-[...]-[segment]-[match]-useless",
    "uniform-[domain]",
    "news-accesses",
    "news-articles-ordered",
    "news-articles-random",
    "news-articles-random-[block]",
)
_MOST = 10_000_000  # a name is typed by hand, and a typing error should not fill the memory
_ORDERS: dict[str, Order] = {order: order for order in ORDERS}


def parse_workload(name: str, values: int = 200, horizon: int = 10) -> Workload:
    """Return the stream of a name.

    Args:
        name: one of `FORMS` with numbers filled in, such as `punct-asc-30-40`; `match` is in percent.
        values: the number of keys that the stream closes, each by a segment, a cluster or an article. For
            `uniform`, which closes no key, it is the number of rows.
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


def _unknown(name: str) -> ConfigError:
    return ConfigError(f"there is no workload {name!r}; choose one of {', '.join(FORMS)}")
