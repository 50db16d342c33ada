"""A promise about a stream: no more rows that match a pattern in every attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from endmark.domain import Domain, PunctuationError, Value
from endmark.punctuation.algebra import meet, normal
from endmark.punctuation.pattern import Anything, Nothing, Pattern

Written = TypeVar("Written")


class Origin(NamedTuple):
    """The place of a punctuation in its topic."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Punctuation:
    """A set of rows that will not come again. Build it with `of`, which puts the patterns in order.

    Args:
        stream: the stream it speaks of.
        patterns: attributes and patterns by name, without those that match anything.
        origin: where it stood; a derived punctuation has none.
    """

    stream: str
    patterns: tuple[tuple[str, Pattern], ...]
    origin: Origin | None = None

    @classmethod
    def of(cls, stream: str, patterns: Mapping[str, Pattern], origin: Origin | None = None) -> Self:
        """Make a punctuation.

        Args:
            stream: the stream that it speaks of.
            patterns: patterns by attribute, in any order. Those that match anything are left out.
            origin: its place in its topic; `None` for a derived punctuation.
        """
        spoken_of = ((name, patterns[name]) for name in sorted(patterns))
        return cls(stream, tuple(pair for pair in spoken_of if pair[1] != Anything()), origin)

    @classmethod
    def read(
        cls,
        stream: str,
        written: Mapping[str, Written],
        domains: Mapping[str, Domain],
        pattern: Callable[[Written, Domain], Pattern],
        origin: Origin | None = None,
    ) -> Self:
        """Make a punctuation of patterns in some written form.

        Args:
            stream: the stream that it speaks of.
            written: written patterns by attribute.
            domains: the domains of the stream's attributes.
            pattern: reads one written pattern.
            origin: its place in its topic; `None` for a derived punctuation.

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
    def place(self) -> Origin:
        """The origin of a punctuation that somebody has sent.

        Raises:
            PunctuationError: the punctuation is derived and has no origin.
        """
        if self.origin is None:
            raise PunctuationError(f"{self} is of no partition")
        return self.origin

    def names(self) -> tuple[str, ...]:
        """Return the attributes that the punctuation restricts."""
        return tuple(name for name, _ in self.patterns)

    def matches(self, row: Mapping[str, Value | None]) -> bool:
        return all(pattern.matches(row[name]) for name, pattern in self.patterns)

    def normal(self, domains: Mapping[str, Domain]) -> Self:
        """Return the same set of rows in normal form. If no row matches, that is all that is kept."""
        patterns = {
            name: normal(pattern, _domain(self.stream, name, domains)) for name, pattern in self.patterns
        }
        if Nothing() in patterns.values():
            patterns = {min(domains): Nothing()}
        return self.of(self.stream, patterns, self.origin)

    def meet(self, other: Self, domains: Mapping[str, Domain]) -> Self:
        """Return the rows that both punctuations match, in normal form and without origin."""
        if self.stream != other.stream:
            raise PunctuationError(f"{self.stream!r} and {other.stream!r} are streams without common rows")
        patterns = dict(self.patterns)
        for name, pattern in other.patterns:
            mine = patterns.get(name, Anything())
            patterns[name] = meet(mine, pattern, _domain(self.stream, name, domains))
        return self.of(self.stream, patterns).normal(domains)

    def implies(self, other: Self, domains: Mapping[str, Domain]) -> bool:
        """Return whether the other one matches every row that this one matches."""
        return self.meet(other, domains).patterns == self.normal(domains).patterns


def _domain(stream: str, name: str, domains: Mapping[str, Domain]) -> Domain:
    if name not in domains:
        raise PunctuationError(f"stream {stream!r} has no attribute {name!r}; it has {', '.join(domains)}")
    return domains[name]
