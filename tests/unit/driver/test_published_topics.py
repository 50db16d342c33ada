"""A topic has the rows of one step of one checkpoint, without a gap."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from endmark.driver.checkpoint import claimed
from endmark.driver.published_topics import know_topics, known_topics, require_own
from endmark.errors import ConfigError
from endmark.pipeline.publish import Publish

PAID, SLOW = {"paid": Publish(topic="out")}, {"slow": Publish(topic="out")}
NONE, SOME = {"out": {"0": 0, "1": 0}}, {"out": {"0": 0, "1": 5}}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Iterator[Path]:
    with claimed(tmp_path):
        yield tmp_path


def test_a_known_topic_is_taken_at_each_start(checkpoint: Path) -> None:
    """A crash may come before the first batch, and between a batch that was sent and its commit."""
    require_own(checkpoint, PAID, NONE, 0)
    for batch in (0, 0, 3):
        know_topics(checkpoint, PAID, batch)
        require_own(checkpoint, PAID, SOME, batch)
    know_topics(checkpoint, PAID | {"slow": Publish(topic="later")}, 4)
    know_topics(checkpoint, PAID | {"slow": Publish(topic="later")}, 6)
    known = known_topics(checkpoint)
    assert {topic: (each.step, each.since, each.stopped) for topic, each in known.items()} == {
        "out": ("paid", 0, None),
        "later": ("slow", 4, None),
    }


def test_a_topic_with_records_of_others_is_refused(checkpoint: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"publish\.paid\.topic: out has records, and this checkpoint has sent none .*name a new topic",
    ):
        require_own(checkpoint, PAID, SOME, 0)


def test_a_topic_of_another_step_is_refused(checkpoint: Path) -> None:
    know_topics(checkpoint, PAID, 0)
    changes = {"paid": Publish(topic="out", mode="changes")}
    for published in (SLOW, changes):
        (step,) = published
        says = rf"publish\.{step}\.topic: out has the rows of step paid by mode: append"
        with pytest.raises(ConfigError, match=says):
            require_own(checkpoint, published, NONE, 1)


def test_a_topic_comes_back_only_without_a_gap(checkpoint: Path) -> None:
    """It was not missed if no batch came meanwhile. The batch that counts is the first one without it."""
    know_topics(checkpoint, PAID, 0)
    know_topics(checkpoint, {}, 4)
    require_own(checkpoint, PAID, SOME, 4)
    know_topics(checkpoint, PAID, 4)
    know_topics(checkpoint, {}, 5)
    know_topics(checkpoint, {"slow": Publish(topic="other")}, 6)
    with pytest.raises(
        ConfigError, match=r"taken out of the pipeline file, and lacks the rows since batch 5"
    ):
        require_own(checkpoint, PAID, SOME, 6)
