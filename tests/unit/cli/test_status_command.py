"""`endmark status` over a real ops database."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.kafka.gaps import Gap
from support.commands import endmark
from support.fulfilment import FULFILMENT
from support.ops_job import PIPELINE, described_job


def test_it_says_what_the_sidecar_says(tmp_path: Path) -> None:
    """For people, and for programs."""
    url = f"--ops-url=sqlite:///{tmp_path / 'ops.db'}"
    with closing(OpsDatabase(url.removeprefix("--ops-url="))) as database:
        job = described_job(database)
        job.commit()
        job.database.runs.set_state(job.run_id, "failed", "the broker is gone")
    said = endmark("status", PIPELINE, url).stdout.splitlines()
    found = json.loads(endmark("status", PIPELINE, url, "--json").stdout)

    assert said[:2] == ["auction is failed", "error: the broker is gone"]
    assert said[2].startswith("last batch: 0, ")
    assert said[2].endswith("s ago, took 0.72 s")
    assert "progress of bids: 2027-01-15 08:00:00 UTC" in said
    assert any(line.startswith("bids: progress is held back by partition 1, which is at") for line in said)
    assert "violations: 3" in said
    assert any(line.startswith("latency of bids in the last 5 minutes: p50 0.75 s, p99 ") for line in said), (
        said
    )
    assert [each["stream"] for each in found["latency"]] == ["items", "bids"]
    assert (found["state"], found["last_batch"]["batch_id"]) == ("failed", 0)


def test_it_says_what_holds_state(tmp_path: Path) -> None:
    """The stream or step with the most rows comes first. Keys that wait for promises of others count, too."""
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    state = {
        "state_rows{operator=join,stream=items}": 250.0,
        "state_rows{operator=aggregate,stream=by_item}": 25_000.0,
        "closed_keys{stream=items}": 7.0,
        "closed_keys{stream=bids}": 0.0,
        "promised_keys{stream=bids}": 0.0,
    }
    with closing(OpsDatabase(url)) as database:
        job = described_job(database)
        database.batches.record(PIPELINE, 0, job.run_id, state, {})

    assert endmark("status", PIPELINE, f"--ops-url={url}").stdout.splitlines()[-3:] == [
        "rows in state: 25,250 (25,000 of by_item, 250 of items)",
        "closed keys: 7 (7 of items)",
        "keys that not all partitions or members have promised yet: 0",
    ]


def test_it_says_what_the_job_has_skipped(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    gaps = [Gap("bids", 0, 5, 1_008), Gap("bids", 1, 7, 8)]
    with closing(OpsDatabase(url)) as database:
        described_job(database)
        database.pipelines.describe(PIPELINE, describe(FULFILMENT, gaps).model_dump())

    said = endmark("status", PIPELINE, f"--ops-url={url}").stdout.splitlines()
    assert "gap: offsets 5 to 1007 of topic bids partition 0 were skipped, up to 1,003 records" in said
    assert "gap: offsets 7 to 7 of topic bids partition 1 were skipped, up to 1 records" in said


def test_a_database_that_is_away_is_told() -> None:
    """The exit code says that a later try may succeed; a file that is not there is another matter."""
    gone = endmark("status", "--ops-url=mysql+pymysql://ops:hunter2@127.0.0.1:1/endmark")

    assert gone.returncode == 75
    assert "cannot read the ops database mysql+pymysql://ops:***@127.0.0.1:1" in gone.stderr
    assert "hunter2" not in gone.stderr
    assert endmark("status", "--ops-url=sqlite:////nowhere/ops.db").returncode == 2
