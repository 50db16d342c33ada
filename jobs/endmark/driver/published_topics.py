"""The topics that a checkpoint publishes to.

A topic has the rows of one checkpoint, without a gap. A second checkpoint would send all rows again. A topic
that was taken out of the pipeline file for a while lacks rows, but the punctuations behind them would call
their keys final. Readers notice neither, so a job refuses such a topic.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from endmark.driver.checkpoint import stored_json
from endmark.errors import ConfigError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.ranges import Range, UnreadableRangeError, read
from endmark.pipeline.publish import BATCH_HEADER, CHECKPOINT_HEADER
from endmark.storage import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.kafka.offsets import Offsets
    from endmark.pipeline.publish import Publish
    from endmark.storage import Location

_PUBLISHED = "endmark/published.json"
_ANOTHER = "name a new topic, and let its readers begin there"


@dataclass(frozen=True)
class KnownTopic:
    """A topic that a checkpoint publishes to.

    Args:
        step: the step whose rows the topic has.
        mode: the `mode` by which it has them.
        since: the first batch that the topic got.
        stopped: the first batch that the topic did not get, after it was taken out of the pipeline file;
            `None` if it was not.
    """

    step: str
    mode: str
    since: int
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
            why = _fault(step, publish, known[topic], batch)
        elif any(ends.get(topic, {}).values()):
            why = "has records, and this checkpoint has sent none of them, so readers could get rows twice"
        else:
            continue
        if why is not None:
            raise ConfigError(f"publish.{step}.topic: {topic} {why}; {_ANOTHER}")


def _fault(step: str, publish: Publish, known: KnownTopic, batch: int) -> str | None:
    if (known.step, known.mode) != (step, publish.mode):
        return f"has the rows of step {known.step} by mode: {known.mode}"
    if known.stopped is not None and known.stopped < batch:
        return f"was taken out of the pipeline file, and lacks the rows since batch {known.stopped}"
    return None


def topics_with(kafka: ClusterOrAddress, ends: Offsets, app_id: str, batch: int) -> list[str]:
    """Return the topics that have records of a batch or of a later one, or may have had some.

    The last record of each partition tells, since batches are published one after the other.

    Args:
        kafka: the Kafka cluster, or the addresses of its brokers.
        ends: the offsets behind the last records of the topics that a checkpoint publishes to.
        app_id: the id of the checkpoint.
        batch: the number of the batch.
    """
    settings = cluster_of(kafka).librdkafka()
    return [
        topic
        for topic, partitions in ends.items()
        if _may_have(
            settings, app_id, batch, [Range(topic, int(at), n - 1, n) for at, n in partitions.items() if n]
        )
    ]


def _may_have(settings: Mapping[str, Any], app_id: str, batch: int, last: Sequence[Range]) -> bool:
    """Return whether the last records of a topic's partitions leave it open that the topic has a batch.

    They do so if one of them is gone or is not of the checkpoint, too.
    """
    if not last:
        return False
    try:
        records = [each.column("headers") for each in read(settings, last, {last[0].topic: ["headers"]})]
    except UnreadableRangeError:
        return True
    found = [dict(headers or ()) for column in records for headers in column.to_pylist()]
    return len(found) < len(last) or not all(
        headers.get(CHECKPOINT_HEADER) == app_id.encode() and int(headers[BATCH_HEADER]) < batch
        for headers in found
    )


def know_topics(checkpoint: Location, published: Mapping[str, Publish], batch: int) -> None:
    """Store the topics that a claimed checkpoint publishes to, before a batch is published.

    Args:
        checkpoint: the directory of the checkpoint.
        published: the topics of the pipeline file, by the step.
        batch: the number of the next batch. The checkpoint's other topics get no rows from this batch on.
    """
    known = known_topics(checkpoint)
    now = {
        publish.topic: KnownTopic(
            step, publish.mode, known[publish.topic].since if publish.topic in known else batch
        )
        for step, publish in published.items()
    }
    others = {
        name: topic if topic.stopped is not None else replace(topic, stopped=batch)
        for name, topic in known.items()
        if name not in now
    }
    if others | now != known:
        topics = {name: asdict(topic) for name, topic in (others | now).items()}
        write_text(checkpoint, _PUBLISHED, json.dumps(topics, indent=2, sort_keys=True))
