"""Punctuations: promises that a stream has no more rows that match a pattern in every attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from endmark.domain import Domain, PunctuationError, Value
from endmark.punctuation.algebra import meet, normal
from endmark.punctuation.pattern import Anything, Equals, Nothing, OneOf, Pattern, values_of

Written = TypeVar("Written")


class Origin(NamedTuple):
    """The coordinates of a punctuation in its topic: partition and offset."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Punctuation:
    """A set of rows that will not come again. `of` makes one and puts its patterns in order.

    Args:
        stream: the name of the stream.
        patterns: pairs of attribute and pattern, sorted by attribute, without patterns that match anything.
        origin: the coordinates in the topic; `None` for a derived punctuation.
    """

    stream: str
    patterns: tuple[tuple[str, Pattern], ...]
    origin: Origin | None = None

    @classmethod
    def of(cls, stream: str, patterns: Mapping[str, Pattern], origin: Origin | None = None) -> Self:
        """Make a punctuation.

        Args:
            stream: the name of the stream.
            patterns: patterns by attribute, in any order. Patterns that match anything are left out.
            origin: the coordinates in the topic; `None` for a derived punctuation.
        """
        pairs = ((name, patterns[name]) for name in sorted(patterns))
        return cls(stream, tuple(pair for pair in pairs if pair[1] != Anything()), origin)

    @classmethod
    def read(
        cls,
        stream: str,
        written: Mapping[str, Written],
        domains: Mapping[str, Domain],
        pattern: Callable[[Written, Domain], Pattern],
        origin: Origin | None = None,
    ) -> Self:
        """Make a punctuation from patterns in a written form.

        Args:
            stream: the name of the stream.
            written: written patterns by attribute.
            domains: the domains of the stream's attributes.
            pattern: reads one written pattern.
            origin: the coordinates in the topic; `None` for a derived punctuation.

        Raises:
            PunctuationError: a pattern cannot be read, or an attribute is unknown. The error names the
                attribute.
        """
        patterns = {}
        for name, text in written.items():
            domain = _domain(stream, name, domains)
            try:
                patterns[name] = pattern(text, domain)
            except PunctuationError as error:
                raise PunctuationError(f"attribute {name!r}: {error}") from None
        return cls.of(stream, patterns, origin)

    @property
    def coordinates(self) -> Origin:
        """The origin of a punctuation that has one.

        Raises:
            PunctuationError: the punctuation is derived and has no origin.
        """
        if self.origin is None:
            raise PunctuationError(f"{self} is of no partition")
        return self.origin

    def names(self) -> tuple[str, ...]:
        """Return the attributes that the punctuation restricts."""
        return tuple(name for name, _ in self.patterns)

    def keys_named(self, on: Sequence[str]) -> list[dict[str, Value]]:
        """Return the keys of the columns `on` that the punctuation names; an empty list if it names none.

        It names keys if it has one value of each column in `on`, or several values of a single column.
        """
        if not set(self.names()) <= set(on):
            return []
        values = {name: values_of(each) for name, each in self.patterns if isinstance(each, Equals | OneOf)}
        if len(values) < len(on) or (len(on) > 1 and any(len(several) != 1 for several in values.values())):
            return []
        return [dict(zip(values, key, strict=True)) for key in zip(*values.values(), strict=True)]

    def matches(self, row: Mapping[str, Value | None]) -> bool:
        """Return whether a row is in the set; `row` has a value of each attribute."""
        return all(pattern.matches(row[name]) for name, pattern in self.patterns)

    def normal(self, domains: Mapping[str, Domain]) -> Self:
        """Return the same set of rows in normal form. The empty set has a single pattern, `Nothing`."""
        patterns = {
            name: normal(pattern, _domain(self.stream, name, domains)) for name, pattern in self.patterns
        }
        if Nothing() in patterns.values():
            patterns = {min(domains): Nothing()}
        return self.of(self.stream, patterns, self.origin)

    def meet(self, other: Self, domains: Mapping[str, Domain]) -> Self:
        """Return the rows that both punctuations match, in normal form and without origin.

        Raises:
            PunctuationError: the punctuations are of different streams, or one has an unknown attribute.
        """
        if self.stream != other.stream:
            raise PunctuationError(f"{self.stream!r} and {other.stream!r} are streams without common rows")
        patterns = dict(self.patterns)
        for name, pattern in other.patterns:
            mine = patterns.get(name, Anything())
            patterns[name] = meet(mine, pattern, _domain(self.stream, name, domains))
        return self.of(self.stream, patterns).normal(domains)

    def implies(self, other: Self, domains: Mapping[str, Domain]) -> bool:
        """Return whether the other punctuation matches every row that this one matches."""
        return self.meet(other, domains).patterns == self.normal(domains).patterns


def _domain(stream: str, name: str, domains: Mapping[str, Domain]) -> Domain:
    if name not in domains:
        raise PunctuationError(f"stream {stream!r} has no attribute {name!r}; it has {', '.join(domains)}")
    return domains[name]
