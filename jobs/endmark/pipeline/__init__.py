"""The pipeline file: streams, relations, the steps between them and where results go.

A pipeline that the engine cannot run is refused with a message that names the field. Nothing here touches
Spark, a broker or a database.
"""

from endmark.pipeline.batch import Batch
from endmark.pipeline.control import Control
from endmark.pipeline.model import Pipeline
from endmark.pipeline.publish import Publish
from endmark.pipeline.sources import COORDINATES, ClosingRule, EventTime, Relation, Stream
from endmark.pipeline.steps.aggregate import Aggregate, Measure
from endmark.pipeline.steps.join import JoinStep
from endmark.pipeline.steps.lookup import Lookup

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
