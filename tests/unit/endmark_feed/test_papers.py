"""The papers' streams keep their promises and have the shapes their names say."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import mean

import numpy as np
import pytest

from endmark.errors import ConfigError
from endmark_feed.options import random_stream
from endmark_feed.papers.event import Event
from endmark_feed.papers.names import FORMS, parse_workload
from endmark_feed.zipf import zipf_keys, zipf_ranks, zipf_shares

NAMES = (
    "cluster-asc-10",
    "cluster-desc-1",
    "cluster-random-3",
    "punct-asc-100-40",
    "punct-desc-5-90",
    "punct-random-30-40",
    "punct-window-random-30-40",
    "punct-asc-30-40-useless",
    "uniform-15000",
    "zipf-20000-1-100",
    "zipf-1000-1.25-2000",
    "news-accesses",
    "news-articles-ordered",
    "news-articles-random",
    "news-articles-random-16",
)
VALUES = 200


def events(name: str, seed: int = 1, values: int = VALUES, horizon: int = 10) -> list[Event]:
    return list(parse_workload(name, values, horizon).events(seed))


def rows(stream: list[Event]) -> list[Event]:
    return [event for event in stream if not event.closes]


def closed(stream: list[Event]) -> list[int]:
    return [event.key for event in stream if event.closes]


def segments(stream: list[Event]) -> list[tuple[int, list[int]]]:
    """Return each closed key with the keys of the rows since the punctuation before."""
    found, keys = list[tuple[int, list[int]]](), list[int]()
    for event in stream:
        if event.closes:
            found.append((event.key, keys))
            keys = []
        else:
            keys.append(event.key)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_stream_is_one_stream(name: str) -> None:
    stream = events(name)
    assert stream == events(name)
    assert stream != events(name, seed=2)
    assert all(earlier.seconds <= later.seconds for earlier, later in pairwise(stream))
    assert [row.serial for row in rows(stream)] == list(range(len(rows(stream))))
    for before, event in pairwise(stream):
        if event.closes:
            assert (event.seconds, event.serial) == (before.seconds, before.serial)
    ended = set[int]()
    for event in stream:
        assert event.key not in ended
        if event.closes:
            ended.add(event.key)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("cluster", "punct"))])
def test_every_value_is_closed_in_its_order(name: str) -> None:
    values = closed(events(name, values=50))
    first = 50 if name.endswith("useless") else 0
    assert sorted(values) == list(range(first, first + 50))
    assert (values == sorted(values)) == ("asc" in name)
    assert (values == sorted(values, reverse=True)) == ("desc" in name)


def test_gaps_are_exponential_with_mean_10_ms() -> None:
    gaps = np.diff([row.seconds for row in rows(events("uniform-9", values=100_000))])
    assert gaps.mean() == pytest.approx(0.010, rel=0.02)
    assert gaps.std() == pytest.approx(0.010, rel=0.02)


def test_clusters_are_of_one_value_and_about_the_size() -> None:
    clusters = segments(events("cluster-random-10", values=2_000))
    assert all(set(keys) == {value} for value, keys in clusters)
    sizes = [len(keys) for _, keys in clusters]
    assert mean(sizes) == pytest.approx(10, rel=0.03)
    assert np.var(sizes) == pytest.approx(10, rel=0.15)
    assert all(len(keys) == 1 for _, keys in segments(events("cluster-asc-1", values=50)))


@pytest.mark.parametrize("name", ["cluster-asc-2", "punct-asc-1-1"])
def test_no_value_is_without_a_row(name: str) -> None:
    """A Poisson size of so few would be 0 for every seventh value at least."""
    assert all(value in keys for value, keys in segments(events(name)))


def test_segments_match_as_often_as_named_and_always_last() -> None:
    found = segments(events("punct-asc-100-40", values=1_000))
    assert all(keys[-1] == value for value, keys in found)
    whole = found[:-10]
    assert mean(len(keys) for _, keys in whole) == pytest.approx(100, rel=0.02)
    assert mean(keys.count(value) / len(keys) for value, keys in whole) == pytest.approx(0.40, rel=0.02)
    # Where the matching rows are is chance, the last one aside.
    halves = Counter(
        place < len(keys) // 2 for value, keys in whole for place, key in enumerate(keys[:-1]) if key == value
    )
    assert halves[True] / halves.total() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("order", ["asc", "desc", "random"])
def test_other_rows_have_any_of_the_next_values(order: str) -> None:
    found = segments(events(f"punct-{order}-100-40", values=VALUES, horizon=7))
    turn = {value: position for position, (value, _) in enumerate(found)}
    ahead = Counter(
        turn[key] - turn[value] for value, keys in found[:-7] for key in keys if turn[key] != turn[value]
    )
    assert set(ahead) == set(range(1, 8))
    assert max(ahead.values()) < 1.15 * min(ahead.values())
    assert set(found[-1][1]) == {found[-1][0]}  # nothing is left to come


def test_window_random_closes_any_value_in_view() -> None:
    values = closed(events("punct-window-random-30-40", values=1_000, horizon=10))
    assert all(value <= position + 10 for position, value in enumerate(values))
    lag = [position - value for position, value in enumerate(values)]
    assert min(lag) == -10
    assert max(lag) > 20


def test_useless_punctuations_leave_the_rows_as_they_are() -> None:
    useful, useless = events("punct-random-30-40"), events("punct-random-30-40-useless")
    assert rows(useless) == rows(useful)
    assert closed(useless) == [value + VALUES for value in closed(useful)]


def test_uniform_keys_have_no_punctuation() -> None:
    stream = events("uniform-20", values=20_000)
    assert closed(stream) == []
    counts = Counter(event.key for event in stream)
    assert set(counts) == set(range(20))
    assert max(counts.values()) < 1.15 * min(counts.values())


def test_accesses_are_of_the_latest_ten_articles() -> None:
    stream = events("news-accesses")
    assert closed(stream) == list(range(VALUES))
    assert set(Counter(row.key for row in rows(stream)).values()) == {10}
    ended = 0
    for event in stream:
        assert ended <= event.key < ended + 10
        ended += event.closes
    assert len({row.key for row in rows(stream)[:10]}) > 4  # of one article after the other it would be 1


def test_an_article_appears_when_it_takes_the_place_of_a_closed_one() -> None:
    articles, accesses = events("news-articles-ordered"), events("news-accesses")
    assert [row.key for row in articles] == list(range(VALUES))
    first = {event.key: event.seconds for event in reversed(accesses)}
    ends = {event.key: event.seconds for event in accesses if event.closes}
    assert all(row.seconds < first[row.key] for row in articles)
    assert all(row.seconds == ends[row.key - 10] for row in articles[10:])


def test_articles_are_shuffled_within_blocks() -> None:
    ordered = events("news-articles-ordered")
    shuffled = events("news-articles-random-16")
    assert [row.seconds for row in shuffled] == [row.seconds for row in ordered]
    keys = [row.key for row in shuffled]
    for first in range(0, VALUES, 16):
        block = keys[first : first + 16]
        assert sorted(block) == list(range(first, min(first + 16, VALUES)))
        assert block != sorted(block)
    whole = [row.key for row in events("news-articles-random")]
    assert sorted(whole) == list(range(VALUES))
    assert abs(np.corrcoef(whole, range(VALUES))[0, 1]) < 0.25


@pytest.mark.parametrize(
    "name",
    [
        "",
        "punct",
        "punct-asc-30",
        "punct-up-30-40",
        "punct-asc-30-40-useful",
        "cluster-3",
        "cluster-window-random-3",
        "uniform-1-2",
        "zipf-1-1",
        "zipf-1-1-1-1",
        "news",
        "news-articles",
        "news-articles-random-1-2",
    ],
)
def test_an_unknown_name_is_answered_with_the_forms(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_workload(name)
    assert str(caught.value) == f"there is no workload {name!r}; choose one of {', '.join(FORMS)}"


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("cluster-asc-0", "size of a workload is 0; choose a number from 1 to 10,000,000"),
        ("cluster-asc-ten", "size of a workload is ten;"),
        ("punct-asc-0-40", "segment of a workload is 0;"),
        ("punct-asc-30-101", "match of a workload is 101; choose a number from 1 to 100"),
        ("uniform-99999999", "domain of a workload is 99999999;"),
        ("zipf-0-1-100", "products of a workload is 0;"),
        ("zipf-10-5.5-100", "exponent of a workload is 5.5; choose a number from 0 to 5, such as 1.25"),
        ("zipf-10-nan-100", "exponent of a workload is nan;"),
        ("zipf-10-1-200001", "rate of a workload is 200001; choose a number from 1 to 200,000"),
        ("news-articles-random-0", "block of a workload is 0;"),
    ],
)
def test_a_number_out_of_range_is_named(name: str, option: str) -> None:
    with pytest.raises(ConfigError, match=option):
        parse_workload(name)


@pytest.mark.parametrize("option", ["values", "horizon"])
def test_an_option_out_of_range_is_named(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option} of a workload is -1;"):
        parse_workload("punct-asc-30-40", **{option: -1})


def test_permuted_keys_have_the_same_popularity_in_other_places() -> None:
    in_place = zipf_keys(random_stream(1, "keys"), 50_000, 1.0, 1_000)
    permuted = zipf_keys(random_stream(1, "keys"), 50_000, 1.0, 1_000, permuted=True)
    assert (in_place == zipf_ranks(random_stream(1, "keys").random(50_000), 1.0, 1_000)).all()
    popularity = [sorted(np.bincount(keys, minlength=1_001).tolist()) for keys in (in_place, permuted)]
    assert popularity[0] == popularity[1]
    first_page = [(keys <= 50).mean() for keys in (in_place, permuted)]
    assert first_page[0] > 0.5
    assert first_page[1] < 0.3


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.25])
def test_shares_are_those_of_the_ranks_drawn(exponent: float) -> None:
    shares = zipf_shares(exponent, 20)
    ranks = zipf_ranks((np.arange(100_000) + 0.5) / 100_000, exponent, 20)
    assert shares == pytest.approx(np.bincount(ranks, minlength=21)[1:] / 100_000, abs=2e-5)
