"""The control topic of a pipeline."""

from __future__ import annotations

from endmark.pipeline.change_rules import Pinned
from endmark.pipeline.fields import Model, Topic


class Control(Model):
    """The Kafka topic that brings instructions to the job and its operators.

    The job makes the topic on the broker of the streams. Its name is `<name of the pipeline>-control`, unless
    `topic` names another.
    """

    topic: Pinned[Topic | None] = None
