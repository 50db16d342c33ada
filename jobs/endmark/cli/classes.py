"""`endmark record-classes`."""

from __future__ import annotations

from endmark.cli.options import AsJson, Output


def record_classes(as_json: AsJson = False) -> None:
    """Record the classes of Spark that jobs on this machine load, so that jobs start sooner.

    The first job records them by itself and takes half a minute longer. So does the first job after a change
    of Java or endmark. The record is kept beside the jars and takes 170 to 190 MB. Jobs on a cluster do not
    use it.
    """
    from endmark.embedded.jars import spark_jars
    from endmark.spark.processes.class_archive import record

    say = Output(as_json).say
    jars = spark_jars(say)
    say("recording the classes that a job loads")
    say(f"recorded in {record(jars)}")
