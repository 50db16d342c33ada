"""Boxes: punctuations on several attributes of one stream, without those that a later one includes.

A box includes another one only if the other has all of its constants. So boxes are found by their constants,
and few are compared: 400 boxes that were all compared with each other took 5 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from endmark.domain import Domain, Value
from endmark.punctuation.pattern import Equals, Nothing, Pattern
from endmark.punctuation.punctuation import Punctuation

_Patterns = tuple[tuple[str, Pattern], ...]


class Boxes:
    """Some punctuations of one stream, in the order in which they were added.

    Args:
        domains: the domains of the attributes that the punctuations restrict.
    """

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self._boxes: dict[_Patterns, Punctuation] = {}
        # The boxes by the names of their constants, and then by the values of these.
        self._by_constants: dict[tuple[str, ...], dict[tuple[Value, ...], dict[_Patterns, Punctuation]]] = {}

    def __iter__(self) -> Iterator[Punctuation]:
        return iter(self._boxes.values())

    def __reversed__(self) -> Iterator[Punctuation]:
        return reversed(self._boxes.values())

    def add(self, box: Punctuation) -> None:
        """Add a punctuation in normal form in place of those that it includes. An empty set adds nothing."""
        if any(isinstance(pattern, Nothing) for _, pattern in box.patterns):
            return
        for included in [old for old in self._with(_constants(box)) if old.implies(box, self._domains)]:
            self._remove(included)
        self.restore(box)

    def remove_where(self, is_included: Callable[[Punctuation], bool]) -> None:
        """Remove the punctuations that a set elsewhere includes."""
        for included in [box for box in self if is_included(box)]:
            self._remove(included)

    def restore(self, box: Punctuation) -> None:
        """Add a punctuation that another `Boxes` had. It is not compared with those before it."""
        constants = _constants(box)
        alike = self._by_constants.setdefault(tuple(constants), {}).setdefault(tuple(constants.values()), {})
        self._boxes[box.patterns] = alike[box.patterns] = box

    def includes(self, punctuation: Punctuation) -> bool:
        """Return whether a single box includes a punctuation in normal form."""
        constants = _constants(punctuation)
        for names, by_values in self._by_constants.items():
            if constants.keys() >= set(names):
                alike = by_values.get(tuple(constants[name] for name in names), {})
                if any(punctuation.implies(box, self._domains) for box in alike.values()):
                    return True
        return False

    def _with(self, constants: Mapping[str, Value]) -> Iterator[Punctuation]:
        """Yield the boxes that have some constants, and perhaps more."""
        for names, by_values in self._by_constants.items():
            if names == tuple(constants):
                yield from by_values.get(tuple(constants.values()), {}).values()
            elif constants.keys() <= set(names):
                for values, alike in by_values.items():
                    if constants.items() <= dict(zip(names, values, strict=True)).items():
                        yield from alike.values()

    def _remove(self, box: Punctuation) -> None:
        constants = _constants(box)
        del self._boxes[box.patterns]
        del self._by_constants[tuple(constants)][tuple(constants.values())][box.patterns]


def _constants(punctuation: Punctuation) -> dict[str, Value]:
    """Return the values of the attributes that have a single one."""
    return {name: pattern.value for name, pattern in punctuation.patterns if isinstance(pattern, Equals)}
