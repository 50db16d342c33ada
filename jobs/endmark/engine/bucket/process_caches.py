"""Caches and page directories of relations. The tasks of one Python process share them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from endmark.operators.lookup.cache import FrontCache
from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.operators.lookup.cache import CacheSpec
    from endmark.operators.lookup.reader import ReadFigures
    from endmark.relation.contract import PageDirectory


@dataclass
class _Pages:
    """The pages of a relation.

    Args:
        rows: the number of rows on a page when the directory was read.
        directory: the directory of the pages.
        grown: the number of keys that reads have found on pages beyond `rows` for each page.
    """

    rows: int
    directory: PageDirectory
    grown: int = 0

    @property
    def is_outgrown(self) -> bool:
        """True if reads have found as many keys too many as the relation had rows.

        To read a directory anew walks through the index of the whole relation. So it pays only then.
        """
        return self.grown >= self.rows * len(self.directory)


@dataclass
class _JobCaches:
    """The caches and page directories of one job in this process.

    Args:
        caches: the caches, by relation.
        pages: the pages, by relation.
    """

    caches: dict[str, FrontCache] = field(default_factory=dict)
    pages: dict[str, _Pages] = field(default_factory=dict)


@lru_cache(maxsize=2)
def _caches_of_job(name: str) -> _JobCaches:
    return _JobCaches()


def shared_cache(plan: LookupPlan, spec: CacheSpec) -> FrontCache:
    """Return the cache of the plan's relation. Its size and lifetimes become those of `spec`."""
    caches, reader = _caches_of_job(plan.cache_name).caches, plan.source.reader
    if plan.relation not in caches:
        kinds = tuple(reader.schema.field(name).type for name in reader.key)
        caches[plan.relation] = FrontCache(spec, KeySpec.of(reader.key, kinds), reader.schema)
    caches[plan.relation].become(spec)
    return caches[plan.relation]


def directory_of(plan: LookupPlan, page_rows: int) -> PageDirectory:
    """Return the directory of the plan's relation for pages of `page_rows` rows.

    If the size is new, or if the relation has outgrown its pages, the directory is read from the relation.
    """
    pages = _caches_of_job(plan.cache_name).pages
    of_file = _Pages(plan.page_rows, plan.source.directory)
    held = pages.get(plan.relation, of_file)
    if held.rows != page_rows:
        held = of_file
    if held.rows != page_rows or held.is_outgrown:
        with plan.reading():
            held = _Pages(page_rows, plan.paged(page_rows))
    pages[plan.relation] = held
    return held.directory


def note_growth(plan: LookupPlan, figures: ReadFigures) -> None:
    """Note how many keys the reads of a batch have found on pages beyond the size of pages.

    Rows that a relation gets lie on the pages that were there. Nothing else would cut the last page, on which
    all new rows lie if their keys ascend.
    """
    held = _caches_of_job(plan.cache_name).pages.get(plan.relation)
    if held is not None:
        held.grown += max(0, figures.page_keys - held.rows * figures.pages)
