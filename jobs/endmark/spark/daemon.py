"""Spark's daemon of Python workers, with what they run already imported before it forks them.

A worker took 1.5 s of a core for its imports, and the first batch of a job starts four.
"""

import gc

import pandas  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.sql.streaming.stateful_processor_util
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import endmark.relation.sql
import endmark.spark.packing.ingest
import endmark.spark.processor  # noqa: F401

if __name__ == "__main__":
    # A worker collects garbage behind each task, which takes 60 ms of a core while it looks at all of these
    # modules, too. They are none of it.
    gc.freeze()
    manager()
