"""A fault in a task names the place of what it worked on, whatever the fault is."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from endmark.errors import TaskError
from endmark.wire.json.records import JsonParser
from support.bucket_tasks import BucketTasks
from support.verify_recompute import sellers_of
from support.verify_world import PARTITIONS, bid, locate, make_pipeline


def test_records_are_named_by_topic_partition_and_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline()
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)
    located = locate([bid(1, second, partition=1) for second in range(4)])
    tasks.batch(located[:1])

    def fail(*_: object) -> NoReturn:
        raise KeyError("x")

    monkeypatch.setattr(JsonParser, "parse", fail)
    with pytest.raises(TaskError) as failed:
        tasks.batch(located[1:])

    assert str(failed.value) == "topic all.bids, partition 1, offsets 1 to 3: KeyError: 'x'"
