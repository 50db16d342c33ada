"""The operator, as Spark sends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.serializers import CloudPickleSerializer

from endmark.spark.processor import StageProcessor
from support.bucket_tasks import BucketTasks
from support.verify_recompute import sellers_of
from support.verify_world import make_pipeline

RECEIVED = """
import sys
from pyspark.serializers import CloudPickleSerializer

CloudPickleSerializer().loads(sys.stdin.buffer.read())
print(*sorted(name for name in sys.modules if name.startswith("endmark.")))
"""


def test_who_plans_a_query_receives_it_without_the_engine(tmp_path: Path) -> None:
    """Spark waits for that at each start, in a Python of its own."""
    pipeline = make_pipeline()
    plan = BucketTasks(pipeline, sellers_of(pipeline), 1, tmp_path).plan
    serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
    sent = serializer.dumps(StageProcessor(plan))
    command = [sys.executable, "-c", RECEIVED]
    received = subprocess.run(command, input=sent, capture_output=True, check=True, timeout=60)

    assert received.stdout.decode().split() == [
        "endmark.errors",
        "endmark.spark",
        "endmark.spark.processor",
    ]
