"""The Kafka topics that a pipeline publishes rows to."""

from __future__ import annotations

from typing import Annotated, Literal

from endmark.pipeline.change_rules import Change, ChangeRule
from endmark.pipeline.fields import Model, Topic

# The headers of a published record: the app id of the checkpoint, and the number of the batch.
CHECKPOINT_HEADER, BATCH_HEADER = "endmark-checkpoint", "endmark-batch"
PUBLISHING = ChangeRule(change=Change.RESTART, remark="another topic for each checkpoint")


class Publish(Model):
    """A Kafka topic of the same broker that gets the rows of a step, and the results' output punctuations.

    An aggregate has rows of two kinds. With `mode: append` the topic gets a record of each group when it is
    final. With `mode: changes` it gets one after each batch that had results of the group: the measures so
    far, and whether the record is the group's last one (`final`). The key of these records is the group key,
    so a topic with `cleanup.policy=compact` keeps the newest record of each group.

    The topic must exist. Kafka gets each batch at least once: a batch that is repeated after a crash is sent
    again. The headers of each record name its batch and checkpoint. A job may begin or cease to publish at
    any start; only the batches from then on are sent. A topic that lacks a batch or has records of others is
    refused.
    """

    topic: Annotated[Topic, PUBLISHING]
    mode: Annotated[Literal["append", "changes"], PUBLISHING] = "append"
