"""What the partitions of a stream have promised, and which promise a row breaks.

A promise speaks for its own partition, and for the rows behind it there. A row breaks a promise of a lower
offset that matches it; the first one is named. Promises on one attribute, whatever their pattern, are found
by bisection: each span of values belongs to the promise that closed it first. Others are tried in turn.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from typing import Any, Self

from endmark.punctuation.algebra import Span, spans_of
from endmark.punctuation.domain import Cut, Domain, PunctuationError, Value
from endmark.punctuation.pattern import Pattern
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.ranges import Ranges
from endmark.punctuation.wire_json import PatternJson, pattern_from_json, pattern_to_json

Row = Mapping[str, Value | None]


class FirstPromises:
    """For every value of one attribute the first promise that closed it."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._closed = Ranges(domain)
        self._spans: list[Span] = []
        self._promises: dict[Cut, int] = {}  # by the lower cut of a span

    def add(self, pattern: Pattern, promise: int) -> None:
        for span in self._closed.add_spans(spans_of(pattern, self.domain)):
            insort(self._spans, span)
            self._promises[span[0]] = promise

    def spans(self) -> Sequence[Span]:
        """In ascending order; neighbours may touch."""
        return self._spans

    def promises(self) -> list[int]:
        """For every span the promise, as a position in its partition's list."""
        return [self._promises[low] for low, _ in self._spans]

    def find(self, value: Value | None) -> int | None:
        if not self._closed.contains(value):
            return None
        at = bisect_right(self._spans, (self.domain.below(value), self.domain.top)) - 1
        return self._promises[self._spans[at][0]]


class PartitionPromises:
    """The promises of one partition in the order of their offsets.

    Attributes:
        promises: all of them, at their `offsets`.
        by_attribute: those that speak of one attribute.
        others: positions of those that speak of several, or of none.
    """

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self.promises: list[Punctuation] = []
        self.offsets: list[int] = []
        self.by_attribute: dict[str, FirstPromises] = {}
        self.others: list[int] = []

    def add(self, punctuation: Punctuation, offset: int) -> None:
        patterns = punctuation.normal(self._domains).patterns
        at = len(self.promises)
        self.promises.append(punctuation)
        self.offsets.append(offset)
        if len(patterns) == 1:
            ((name, pattern),) = patterns
            self.by_attribute.setdefault(name, FirstPromises(self._domains[name])).add(pattern, at)
        else:
            self.others.append(at)

    def first_matching(self, row: Row) -> int | None:
        """The position of the first promise that matches, before or behind the row."""
        found = [firsts.find(row[name]) for name, firsts in self.by_attribute.items()]
        found.append(next((at for at in self.others if self.promises[at].matches(row)), None))
        return min((at for at in found if at is not None), default=None)


class Ledger:
    """The promises of a stream.

    Args:
        stream: whose punctuations it takes.
        domains: its attributes.
    """

    def __init__(self, stream: str, domains: Mapping[str, Domain]) -> None:
        self.stream = stream
        self.domains = dict(domains)
        self._partitions: dict[int, PartitionPromises] = {}

    def promise(self, punctuation: Punctuation) -> None:
        """Remember a punctuation. Those of a partition come in the order of their offsets."""
        origin = punctuation.origin
        if punctuation.stream != self.stream or origin is None:
            raise PunctuationError(f"{punctuation} is no promise of a partition of {self.stream!r}")
        promises = self.partition(origin.partition)
        if promises.offsets and promises.offsets[-1] >= origin.offset:
            raise PunctuationError(
                f"{self.stream!r} partition {origin.partition}: "
                f"offset {origin.offset} comes after offset {promises.offsets[-1]}"
            )
        promises.add(punctuation, origin.offset)

    def violation(self, row: Row, partition: int, offset: int) -> Punctuation | None:
        """The first promise that a row at this place breaks."""
        promises = self.partition(partition)
        at = promises.first_matching(row)
        return promises.promises[at] if at is not None and promises.offsets[at] < offset else None

    def partition(self, partition: int) -> PartitionPromises:
        """The promises of one partition; none, if it has not made any."""
        if partition not in self._partitions:
            self._partitions[partition] = PartitionPromises(self.domains)
        return self._partitions[partition]

    def snapshot(self) -> dict[str, Any]:
        """What `restore` takes, ready for JSON: per partition pairs of offset and patterns."""
        return {
            str(partition): [
                [offset, self._written(punctuation)]
                for offset, punctuation in zip(promises.offsets, promises.promises, strict=True)
            ]
            for partition, promises in self._partitions.items()
        }

    @classmethod
    def restore(
        cls, stream: str, domains: Mapping[str, Domain], snapshot: Mapping[str, Sequence[Any]]
    ) -> Self:
        ledger = cls(stream, domains)
        for partition, promises in snapshot.items():
            for offset, written in promises:
                origin = Origin(int(partition), offset)
                ledger.promise(Punctuation.read(stream, written, domains, pattern_from_json, origin))
        return ledger

    def _written(self, punctuation: Punctuation) -> dict[str, PatternJson]:
        return {name: pattern_to_json(pattern, self.domains[name]) for name, pattern in punctuation.patterns}
