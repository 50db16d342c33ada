"""Durations in words say exactly the duration, in the unit that people choose."""

from __future__ import annotations

from datetime import timedelta

import pytest

from endmark.pipeline.duration_words import in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (59, "59 s"),
        (60, "1 minute"),
        (90, "90 s"),
        (5_400, "90 minutes"),
        (3_600, "1 hour"),
        (86_400, "1 day"),
        (604_800, "7 days"),
        (604_800.001, "604800.001 s"),
        (36_500 * 86_400, "36,500 days"),
    ],
)
def test_no_duration_is_rounded(seconds: float, words: str) -> None:
    """The longest unit without a fraction is used; what has none of them stays in seconds."""
    assert in_words(timedelta(seconds=seconds)) == words
