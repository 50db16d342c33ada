"""Features of random pipelines and records that one test may ask for often, so that pairs of them meet."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

FEATURES = (
    "idle",
    "parked",
    "changes",
    "published",
    "outer joins",
    "many streams",
    "further stages",
    "whole topics",
    "promises of rows",
    "other clocks",
)


@dataclass(frozen=True)
class Often:
    """The features that most pipelines have."""

    features: frozenset[str] = frozenset()

    def wants(self, feature: str) -> bool:
        """Return whether most pipelines have a feature."""
        if feature not in FEATURES:
            raise ValueError(f"no feature: {feature}")
        return feature in self.features

    def has(self, feature: str, *, among: int) -> st.SearchStrategy[bool]:
        """Draw whether a pipeline has a feature. Otherwise, one among so many has it."""
        if self.wants(feature):
            return st.sampled_from([True, True, True, False])
        return st.integers(0, among - 1).map(lambda number: number == 0)


RARELY = Often()


def pairs() -> st.SearchStrategy[Often]:
    """Draw two or three features."""
    chosen = st.lists(st.sampled_from(FEATURES), min_size=2, max_size=3, unique=True)
    return chosen.map(lambda features: Often(frozenset(features)))
