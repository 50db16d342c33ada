"""The pipelines of the ops database, of which a caller may see all or some."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from endmark_ops.readers.lag import Ends
from endmark_ops.readers.source import OpsReader, OpsSource


class Sources:
    """The readers of all pipelines of an ops database.

    Args:
        reader: reads the ops database.
        ends: returns the ends of topics, or `None` if they are not known.
        visible: the names of the pipelines that are shown; `None`: all.
    """

    def __init__(
        self,
        reader: OpsReader,
        ends: Callable[[Collection[str]], Ends | None] = lambda _: None,
        visible: frozenset[str] | None = None,
    ) -> None:
        self._reader = reader
        self._ends = ends
        self._visible = visible

    def __iter__(self) -> Iterator[OpsSource]:
        return map(self.of, self.names())

    def only(self, visible: frozenset[str] | None) -> Sources:
        """Return these pipelines without those that are not named; `None` leaves out none."""
        return Sources(self._reader, self._ends, visible)

    def names(self) -> list[str]:
        """Return the names of the pipelines that are shown, sorted.

        Raises:
            UnreadableError: the database cannot be read.
        """
        return [name for name in self._reader.pipelines() if self._visible is None or name in self._visible]

    def of(self, pipeline: str) -> OpsSource:
        """Return the reader of one pipeline, whether or not it has begun."""
        return OpsSource(self._reader, pipeline, self._ends)
