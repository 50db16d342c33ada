"""The front cache: what it keeps, for how long, and how much."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from endmark.operators.lookup.cache import CacheSpec, Frequencies, FrontCache
from endmark.state.keys import KeySpec

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
KEY = KeySpec.of(["id"], [pa.int64()])


def _cache(capacity: int = 100_000) -> FrontCache:
    return FrontCache(CacheSpec(capacity, lifetime=100, absent_lifetime=10), KEY, SCHEMA)


def _keys(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"stream_id": pa.array(keys, pa.int64())})


def _rows(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(keys, pa.int64()), "name": pa.array([f"n{key}" for key in keys])})


def _held(cache: FrontCache, keys: list[int], now: int) -> dict[int, bool]:
    """Whether R has a key, for those of the keys that the cache answers."""
    answer = cache.lookup(KEY.keys(_rows(keys)), now)
    matched = np.concatenate([np.empty(0, int), *(i for i, _ in answer.pairs)])
    assert set(matched) == set(np.flatnonzero(answer.found))
    return {keys[row]: bool(found) for row, found in zip(answer.rows, answer.found, strict=True)}


def test_found_and_absent_keys_have_their_own_lifetime() -> None:
    cache = _cache()
    cache.admit([(_keys([1, 2, 3]), _rows([1, 3]))], now=0)
    assert _held(cache, [1, 2, 3, 4], now=9) == {1: True, 2: False, 3: True}
    assert _held(cache, [1, 2, 3, 4], now=10) == {1: True, 3: True}
    assert cache.age(99) == 99
    assert _held(cache, [1, 2, 3, 4], now=100) == {}


def test_a_newer_answer_replaces_an_older_one() -> None:
    cache = _cache()
    cache.admit([(_keys([1, 2]), _rows([1]))], now=0)
    cache.admit([(_keys([2, 1]), _rows([2]))], now=5)
    assert _held(cache, [1, 2], now=6) == {1: False, 2: True}
    assert len(cache) == 2


def test_a_cache_becomes_smaller_and_larger() -> None:
    """What is asked for most stays, and is known by that whatever the size of the sketch."""
    cache = _cache()
    keys = list(range(100))
    cache.admit([(_keys(keys), _rows(keys))], now=0)
    for _ in range(3):
        _held(cache, keys[40:60], now=1)
    full = cache.size
    cache.become(CacheSpec(full // 5, lifetime=100, absent_lifetime=10))
    assert 15 <= len(cache) <= 20
    assert set(_held(cache, keys, now=2)) <= set(keys[40:60])

    cache.become(CacheSpec(100_000_000, lifetime=5, absent_lifetime=10))
    assert _held(cache, keys, now=5) == {}
    cache.admit([(_keys(keys), _rows(keys))], now=6)
    assert len(cache) == 100


def test_counts_outlive_another_size_of_the_sketch() -> None:
    """Never too low; nor higher than before in a larger one, in which keys to come are told apart."""
    frequencies = Frequencies(bits=10)
    some, others = KEY.keys(_rows(list(range(50)))).codes, KEY.keys(_rows(list(range(50, 90)))).codes
    for _ in range(3):
        frequencies.add(some)
    before = frequencies.of(some)
    frequencies.resize(14)
    assert (frequencies.of(some) == before).all()
    frequencies.add(others)
    frequencies.resize(6)
    assert (frequencies.of(some) >= 3).all()
    assert (frequencies.of(others) >= 1).all()
    frequencies.add(others)
    assert (frequencies.of(others) >= 2).all()


def test_all_rows_of_a_key_come_from_the_cache() -> None:
    cache = _cache()
    cache.admit([(_keys([7]), _rows([7, 7, 7]))], now=0)
    [(i, j)] = cache.lookup(KEY.keys(_rows([7, 8, 7])), 1).pairs
    assert i.tolist() == [0, 0, 0, 1, 1, 1]
    assert sorted(j[:3].tolist()) == [0, 1, 2]


def test_an_evicted_key_is_read_again() -> None:
    cache = _cache()
    cache.admit([(_keys([1, 2]), _rows([1]))], now=0)
    cache.evict(_keys([5, 1]))
    assert _held(cache, [1, 2], now=1) == {2: False}
    assert cache.age(1) == 1
    cache.admit([(_keys([3]), _rows([3]))], now=2)
    assert len(cache) == 2


def test_keys_asked_for_often_are_not_too_old_all_at_once() -> None:
    """They are read again one after the other before that, those asked for rarely are not."""
    cache = _cache()
    often, rarely = list(range(200)), list(range(1_000, 1_003))
    cache.admit([(_keys(often), _rows(often)), (_keys(rarely), _rows(rarely))], now=0)
    for now in range(75):
        assert _held(cache, often, now).keys() == set(often)
    renewed = []
    for now in range(75, 100):
        due = sorted(set(often) - _held(cache, often, now).keys())
        cache.admit([(_keys(due), _rows(due))], now)
        renewed.append(len(due))
    assert max(renewed) < 25
    assert _held(cache, rarely, now=99).keys() == set(rarely)
    assert cache.age(99) == 99
    assert len(_held(cache, often, now=100)) > 180
    assert not _held(cache, rarely, now=100)
    assert cache.age(100) <= 25


def test_what_is_asked_for_most_stays_within_capacity() -> None:
    """Zipf: the keys held are the hot ones, however late they were asked for."""
    cache = _cache(capacity=2_000)
    hot = list(range(20))
    for now in range(30):
        keys = [*hot, *range(1_000 + 100 * now, 1_100 + 100 * now)]
        rows = np.setdiff1d(keys, list(_held(cache, keys, now))).tolist()
        cache.admit([(_keys(rows), _rows(rows))], now)
        assert cache.size <= 2_000
    assert set(_held(cache, hot, now=30)) == set(hot)


def test_frequencies_forget() -> None:
    frequencies = Frequencies(bits=4)
    frequencies.add(np.full(100, 5))
    assert frequencies.of(np.array([5])).tolist() == [100]
    frequencies.add(np.full(60, 9))
    assert frequencies.of(np.array([5, 9])).tolist() == [50, 30]
