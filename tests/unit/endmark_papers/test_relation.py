"""R in pages, against lists of its rows."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.errors import ConfigError
from endmark_papers.algorithms.relation import MasterRow, Page, PagedRelation

KEYS = range(-2, 10)  # one more than R's at either end
relations = st.lists(st.integers(-1, 8), max_size=14).map(
    lambda keys: [MasterRow(key, at) for at, key in enumerate(keys)]
)
sizes = st.integers(1, 4)


def inside(rows: list[MasterRow], page: Page) -> list[MasterRow]:
    return sorted(row for row in rows if page.low <= row.key < page.high)


@given(rows=relations, page_rows=sizes)
def test_pages_share_out_all_keys(rows: list[MasterRow], page_rows: int) -> None:
    """Every key, in R or not, belongs to one page, and that page holds all of its rows."""
    relation = PagedRelation(rows, page_rows)
    pages = [relation.read(number) for number in range(relation.pages)]

    assert pages[0].low == float("-inf")
    assert pages[-1].high == float("inf")
    assert [page.high for page in pages[:-1]] == [page.low for page in pages[1:]]
    assert all(list(page.rows) == inside(rows, page) for page in pages)
    for key in KEYS:
        page = relation.read(relation.page_of(key))
        assert page.low <= key < page.high


@given(rows=relations, page_rows=sizes)
def test_pages_are_as_full_as_equal_keys_allow(rows: list[MasterRow], page_rows: int) -> None:
    """A page is longer than asked for one key alone, and shorter only for rows that would be parted."""
    relation = PagedRelation(rows, page_rows)
    pages = [relation.read(number).rows for number in range(relation.pages)]

    for page in pages:
        assert len(page) <= page_rows or len({row.key for row in page}) == 1
    for page, following in pairwise(pages):
        together = sum(row.key == following[0].key for row in following)
        assert len(page) + together > page_rows


@given(rows=relations, page_rows=sizes, key=st.sampled_from(KEYS))
def test_read_from_knows_what_it_does_not_find(rows: list[MasterRow], page_rows: int, key: int) -> None:
    """An unaligned page starts at the key, has as many rows as a page, and all rows of its range."""
    page = PagedRelation(rows, page_rows).read_from(key)
    following = sorted(row for row in rows if row.key >= key)

    assert page.low == key < page.high
    assert list(page.rows) == inside(rows, page)
    assert len(page.rows) >= min(page_rows, len(following))
    assert len({row.key for row in page.rows[page_rows - 1 :]}) <= 1


@given(rows=relations, key=st.sampled_from(KEYS))
def test_find_gives_all_rows_of_a_key(rows: list[MasterRow], key: int) -> None:
    """The index knows every row of a key."""
    assert list(PagedRelation(rows, 2).find(key)) == sorted(row for row in rows if row.key == key)


def test_empty_relation_answers_for_every_key() -> None:
    """Without rows there is one page, which proves every key absent."""
    empty = PagedRelation([], 3)

    assert (len(empty), empty.pages, empty.page_of(7)) == (0, 1, 0)
    assert empty.read(0) == Page(float("-inf"), float("inf"), [])
    assert empty.read_from(7) == Page(7, float("inf"), [])
    assert list(empty.find(7)) == []


def test_checkpoint_of_a_reader_does_not_copy_the_relation() -> None:
    """R is no operator's state."""
    relation = PagedRelation([MasterRow(1, 0)], 1)

    assert copy.deepcopy([relation])[0] is relation


def test_page_of_no_rows_is_refused() -> None:
    """A page that holds nothing would never end."""
    with pytest.raises(ConfigError, match="page_rows=0"):
        PagedRelation([MasterRow(1, 0)], 0)
