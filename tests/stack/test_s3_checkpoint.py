"""Spark's files of a checkpoint behind a real S3 server: they appear whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.s3_server import S3Server

# Three drivers see that a batch has no file yet. Two of them write it, and one is broken off.
PROGRAM = """
import os
from endmark.embedded.jars import s3_jars, spark_jars
from endmark.spark.s3 import s3_settings
from endmark.spark.session import start_session

spark = start_session(
    "checkpoint", spark_jars(print), master="local[1]", shuffle_partitions=1, driver_memory="700m",
    delta=False, more=s3_settings(os.environ), store_jars=s3_jars(print),
)
jvm = spark._jvm
directory = jvm.org.apache.hadoop.fs.Path("s3a://shop/checkpoint/spark/offsets")
managers = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
manager = managers.create(directory, spark._jsparkSession.sessionState().newHadoopConf())
manager.mkdirs(directory)
file = jvm.org.apache.hadoop.fs.Path(directory, "7")
first, second, broken = (manager.createAtomic(file, False) for _ in range(3))
for text, stream in (("first", first), ("second", second), ("broken", broken)):
    stream.write(text.encode())
broken.cancel()
print("files", manager.exists(file))
second.close()
first.close()
spark.stop()
"""


def test_the_first_file_of_a_batch_stays(tmp_path: Path) -> None:
    """A write that is broken off leaves nothing. One that ends behind another one changes nothing."""
    with S3Server(tmp_path / "s3") as server:
        server.make_bucket("shop")
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | server.environment(),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        kept = (server.objects / "shop/checkpoint/spark/offsets/7").read_text()

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "files False"
    assert kept == "second"
