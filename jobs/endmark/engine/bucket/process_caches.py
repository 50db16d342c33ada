"""Caches and page directories of relations. The tasks of one Python process share them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from endmark.operators.lookup.cache import FrontCache
from endmark.operators.lookup.held_pages import HeldPages
from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.operators.lookup.cache import CacheSpec
    from endmark.operators.lookup.reader import ReadFigures
    from endmark.relation.contract import PageDirectory


@dataclass
class _JobCaches:
    """The caches and page directories of one job in this process.

    Args:
        caches: the caches, by relation.
        pages: the pages, by relation.
    """

    caches: dict[str, FrontCache] = field(default_factory=dict)
    pages: dict[str, HeldPages] = field(default_factory=dict)


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
    of_file = HeldPages(plan.page_rows, plan.source.directory)
    held = pages.get(plan.relation, of_file)
    if held.rows != page_rows:
        held = of_file
    if held.rows != page_rows or held.is_outgrown:
        with plan.reading():
            held = HeldPages(page_rows, plan.paged(page_rows))
    pages[plan.relation] = held
    return held.directory


def note_growth(plan: LookupPlan, figures: ReadFigures) -> None:
    """Note the keys that the reads of a batch have found on pages of the plan's relation."""
    held = _caches_of_job(plan.cache_name).pages.get(plan.relation)
    if held is not None:
        held.note(figures)
