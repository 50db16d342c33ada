"""`endmark record-classes`."""

from __future__ import annotations

import typer


def record_classes() -> None:
    """Record anew the classes of Spark that jobs on this machine load, with which they start sooner.

    The first job does it by itself, also after Java or endmark has changed, and takes half a minute longer.
    They are kept beside the jars, in some 180 MB. A job on a cluster has no use for them.
    """
    from endmark.embedded.jars import spark_jars
    from endmark.spark.class_archive import record

    def say(text: str) -> None:
        typer.echo(text, err=True)

    jars = spark_jars(say)
    say("recording the classes that a job loads")
    say(f"recorded in {record(jars)}")
