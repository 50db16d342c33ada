"""The topics that a checkpoint publishes to.

A topic has the rows of one checkpoint, without a gap. A second checkpoint would send all rows again. A topic
that was taken out of the pipeline file for a while lacks rows, but the punctuations behind them would call
their keys final. Readers notice neither, so a job refuses such a topic.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from endmark.driver.checkpoint import stored_json
from endmark.errors import ConfigError
from endmark.storage import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.kafka.offsets import Offsets
    from endmark.pipeline.steps import Publish
    from endmark.storage import Location

_PUBLISHED = "endmark/published.json"
_ANOTHER = "name a new topic, and let its readers begin there"


@dataclass(frozen=True)
class KnownTopic:
    """A topic that a checkpoint publishes to.

    Args:
        step: the step whose rows the topic has.
        mode: the `mode` by which it has them.
        stopped: the first batch that the topic did not get, after it was taken out of the pipeline file;
            `None` if it was not.
    """

    step: str
    mode: str
    stopped: int | None = None


def known_topics(checkpoint: Location) -> dict[str, KnownTopic]:
    """Return the topics that batches of a claimed checkpoint may have been published to, by name."""
    found = stored_json(checkpoint, _PUBLISHED) or {}
    return {name: KnownTopic(**topic) for name, topic in found.items()}


def require_own(checkpoint: Location, published: Mapping[str, Publish], ends: Offsets, batch: int) -> None:
    """Refuse topics whose readers would get rows twice, or would lack rows.

    Args:
        checkpoint: the directory of the checkpoint, which is locked.
        published: the topics of the pipeline file, by the step.
        ends: the offsets behind the last records of the topics.
        batch: the number of the next batch.

    Raises:
        ConfigError: a topic that the checkpoint does not know has records. Or it has the rows of another
            step or mode. Or it was taken out of the pipeline file for a while.
    """
    known = known_topics(checkpoint)
    for step, publish in published.items():
        topic = publish.topic
        if topic in known:
            why = _fault(KnownTopic(step, publish.mode), known[topic], batch)
        elif any(ends.get(topic, {}).values()):
            why = "has records, and this checkpoint has sent none of them, so readers could get rows twice"
        else:
            continue
        if why is not None:
            raise ConfigError(f"publish.{step}.topic: {topic} {why}; {_ANOTHER}")


def _fault(now: KnownTopic, known: KnownTopic, batch: int) -> str | None:
    if (known.step, known.mode) != (now.step, now.mode):
        return f"has the rows of step {known.step} by mode: {known.mode}"
    if known.stopped is not None and known.stopped < batch:
        return f"was taken out of the pipeline file, and lacks the rows since batch {known.stopped}"
    return None


def know_topics(checkpoint: Location, published: Mapping[str, Publish], batch: int) -> None:
    """Store the topics that a claimed checkpoint publishes to, before a batch is published.

    Args:
        checkpoint: the directory of the checkpoint.
        published: the topics of the pipeline file, by the step.
        batch: the number of the next batch. The checkpoint's other topics get no rows from this batch on.
    """
    known = known_topics(checkpoint)
    now = {publish.topic: KnownTopic(step, publish.mode) for step, publish in published.items()}
    others = {
        name: topic if topic.stopped is not None else replace(topic, stopped=batch)
        for name, topic in known.items()
        if name not in now
    }
    if others | now != known:
        topics = {name: asdict(topic) for name, topic in (others | now).items()}
        write_text(checkpoint, _PUBLISHED, json.dumps(topics, indent=2, sort_keys=True))
