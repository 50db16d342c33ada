"""Nexmark's random texts, a column at a time."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
_FIRST = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_NAMES = tuple(" ".join(both) for both in product(_FIRST, _LAST))
_DIGITS = pa.array([f"{number:04d}" for number in range(10_000)])
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CHANNELS = 10_000


def words(random: np.random.Generator, least: int, most: int, count: int) -> pa.Array:
    """Return random words.

    Args:
        random: the source of randomness.
        least, most: a word has `least` to `most - 1` letters.
        count: the number of words.
    """
    return _letters(random, random.integers(least, most, size=count))


def chosen(random: np.random.Generator, among: Sequence[str] | pa.Array, count: int) -> pa.Array:
    """Return random choices among values, all equally likely.

    Args:
        random: the source of randomness.
        among: the values.
        count: the number of choices.
    """
    known = among if isinstance(among, pa.Array) else pa.array(among)
    return known.take(pa.array(random.integers(len(known), size=count)))


def person(random: np.random.Generator, count: int) -> dict[str, pa.Array]:
    """Return the columns of persons, without their state."""
    mail = [words(random, 3, 7, count), words(random, 3, 5, count)]
    card = [chosen(random, _DIGITS, count) for _ in range(4)]
    return {
        "name": chosen(random, _NAMES, count),
        "email_address": pc.binary_join_element_wise(
            pc.binary_join_element_wise(*mail, "@"), pa.scalar("com"), "."
        ),
        "credit_card": pc.binary_join_element_wise(*card, " "),
        "city": chosen(random, _CITIES, count),
    }


def channels(random: np.random.Generator, count: int) -> tuple[pa.Array, pa.Array]:
    """Return channel and URL of bids. Every other bid is of a hot channel."""
    names, urls = _channels()
    hot = random.integers(len(_HOT_CHANNELS), size=count)
    other = len(_HOT_CHANNELS) + random.integers(_CHANNELS, size=count)
    which = pa.array(np.where(random.integers(2, size=count) > 0, hot, other))
    return names.take(which), urls.take(which)


def filling(
    random: np.random.Generator, beside: Sequence[int | pa.Array], average: int, count: int
) -> pa.Array:
    """Return a text column that brings rows to an average size, give or take a fifth of what is missing.

    Args:
        random: the source of the letters.
        beside: the other columns: bytes of each row as a number, or a text column.
        average: the average size of a row in bytes.
        count: the number of rows.
    """
    taken = sum(each if isinstance(each, int) else pc.binary_length(each).to_numpy() for each in beside)
    missing = np.maximum(average - np.broadcast_to(taken, count), 0)
    spread = np.round(missing * 0.2).astype(np.int64)
    return _letters(random, missing - spread + (random.random(count) * 2 * spread).astype(np.int64))


@cache
def _channels() -> tuple[pa.Array, pa.Array]:
    """All there are, the same ones in every part of any stream."""
    random = np.random.default_rng(1)
    count = len(_HOT_CHANNELS) + _CHANNELS
    path = pc.binary_join_element_wise(*(words(random, 3, 5, count) for _ in range(3)), "/")
    numbers = [f"&channel_id={number}" for number in random.integers(2**31, size=count)]
    numbered = (np.arange(count) >= len(_HOT_CHANNELS)) & (random.integers(10, size=count) > 0)
    ends = pc.if_else(pa.array(numbered), pa.array(numbers), pa.scalar(""))
    urls = pc.binary_join_element_wise("https://www.nexmark.com/", path, "/item.htm?query=1", ends, "")
    return pa.array([*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_CHANNELS))]), urls


def _letters(random: np.random.Generator, lengths: NDArray[np.int64]) -> pa.Array:
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    letters = random.integers(ord("a"), ord("z"), size=int(ends[-1]), dtype=np.uint8, endpoint=True)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(ends), pa.py_buffer(letters))
