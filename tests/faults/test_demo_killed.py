"""The demo of the example `fulfilment`, whose job is killed on the way."""

from __future__ import annotations

import json
from pathlib import Path

from support.demo import DEADLINE_SECONDS, running_demo


def test_a_demo_whose_job_is_killed_twice(tmp_path: Path) -> None:
    """Nothing is lost or comes twice of three streams, row steps, chained lookups and a second stage."""
    arguments = ["--example=fulfilment", "--kills=2", "--minutes=1", "--rate=1500", "--seed=3"]
    with running_demo(tmp_path, *arguments) as demo:
        output, _ = demo.process.communicate(timeout=DEADLINE_SECONDS)

    assert demo.process.returncode == 0, output + demo.said
    assert "time 2 of 2" in " ".join(demo.said.split())
    report = json.loads(output[output.index("{") :])
    assert report["ok"]
    actual = {table["table"]: table["actual"] for table in report["tables"]}
    assert actual["fulfilled"] > 15_000
    assert actual["by_country"] == 17  # guests have none
    [topic] = report["published"]
    assert topic["records"] >= topic["actual"] == topic["expected"] > actual["fulfilled"]
