"""What the tasks of a Python process have of relations: caches and page directories, as tasks come and go."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from endmark.joins.lookup.cache import FrontCache
from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from endmark.joins.lookup.cache import CacheSpec
    from endmark.relation.contract import PageDirectory
    from endmark.spark.bucket.lookup import LookupPlan


@dataclass
class _AtHand:
    """Of one job, by relation; directories beside the rows of a page."""

    caches: dict[str, FrontCache] = field(default_factory=dict)
    directories: dict[str, tuple[int, PageDirectory]] = field(default_factory=dict)


@lru_cache(maxsize=2)
def _at_hand(name: str) -> _AtHand:
    return _AtHand()


def shared_cache(plan: LookupPlan, spec: CacheSpec) -> FrontCache:
    """That of the plan's relation, which is as `spec` says from now on."""
    caches, reader = _at_hand(plan.cache_name).caches, plan.source.reader
    if plan.relation not in caches:
        kinds = tuple(reader.schema.field(name).type for name in reader.key)
        caches[plan.relation] = FrontCache(spec, KeySpec.of(reader.key, kinds), reader.schema)
    caches[plan.relation].become(spec)
    return caches[plan.relation]


def directory_of(plan: LookupPlan, page_rows: int) -> PageDirectory:
    """The plan's relation in pages of so many rows; made at the first call, and anew for other pages."""
    if page_rows == plan.page_rows:
        return plan.source.directory
    directories = _at_hand(plan.cache_name).directories
    rows, directory = directories.get(plan.relation, (0, plan.source.directory))
    if rows != page_rows:
        with plan.reading():
            directory = plan.paged(page_rows)
        directories[plan.relation] = page_rows, directory
    return directory
