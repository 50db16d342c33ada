"""Reads the next part of a relation while the current part is joined."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    T = TypeVar("T")


def read_ahead(reads: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield the results of reads in their order, always one read ahead of the caller.

    An error of a read is raised in the place of its result. A caller who stops early waits for the end of the
    current read.
    """
    with ThreadPoolExecutor(1, "read_ahead") as aside:
        ahead: Future[T] | None = None
        for read in reads:
            following = aside.submit(read)
            if ahead is not None:
                yield ahead.result()
            ahead = following
        if ahead is not None:
            yield ahead.result()
