"""The pipeline file: streams, relations, the steps between them and where results go.

A pipeline that the engine cannot run is refused with a message that names the field. Nothing here touches
Spark, a broker or a database.
"""

from endmark.pipeline.model import Pipeline
from endmark.pipeline.sources import COORDINATES, ClosingRule, EventTime, Relation, Stream
from endmark.pipeline.steps import Aggregate, Batch, Control, JoinStep, Lookup, Measure, Publish

__all__ = [
    "COORDINATES",
    "Aggregate",
    "Batch",
    "ClosingRule",
    "Control",
    "EventTime",
    "JoinStep",
    "Lookup",
    "Measure",
    "Pipeline",
    "Publish",
    "Relation",
    "Stream",
]
