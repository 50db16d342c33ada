"""The modules of Python workers, which are imported once before workers are forked.

The first batch of a job starts four workers. To import Spark's modules took each of them 1.5 s of a core, and
ours 0.7 s.
"""


def import_modules() -> None:
    """Import the modules, of which some take long."""
    import pandas  # noqa: F401
    import pyspark.daemon
    import pyspark.sql.pandas.serializers
    import pyspark.sql.streaming.proto.StateMessage_pb2
    import pyspark.sql.streaming.stateful_processor_util
    import pyspark.worker  # noqa: F401

    import endmark.engine.delta_files
    import endmark.engine.ingest.ingest
    import endmark.engine.stored_task
    import endmark.kafka.ranges
    import endmark.relation.sql
    import endmark.wire.json.records  # noqa: F401
