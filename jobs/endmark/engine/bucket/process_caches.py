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
    from endmark.relation.contract import PageDirectory


@dataclass
class _JobCaches:
    """The caches and page directories of one job in this process.

    Args:
        caches: the caches, by relation.
        directories: the directories with the number of rows on their pages, by relation.
    """

    caches: dict[str, FrontCache] = field(default_factory=dict)
    directories: dict[str, tuple[int, PageDirectory]] = field(default_factory=dict)


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

    If the size is new, the directory is read from the relation.
    """
    if page_rows == plan.page_rows:
        return plan.source.directory
    directories = _caches_of_job(plan.cache_name).directories
    rows, directory = directories.get(plan.relation, (0, plan.source.directory))
    if rows != page_rows:
        with plan.reading():
            directory = plan.paged(page_rows)
        directories[plan.relation] = page_rows, directory
    return directory
