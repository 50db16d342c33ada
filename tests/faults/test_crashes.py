"""The whole pipeline, killed while it works: nothing lost, nothing twice."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from endmark.embedded.broker import Broker
from endmark_feed.auction_feed import FeedOptions
from support.warehouse import Warehouse, wait_for

KILLS = 3


def test_killed_three_times_and_still_right(tmp_path: Path) -> None:
    """SIGKILL at random moments, each after new progress, while the feed runs; then every table is equal to
    its recomputation and every record is conserved."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    options = FeedOptions(seed=seed, minutes=0.75, rate=2_500, sellers=5_000, bad_rate=0.002)
    with Broker(tmp_path / "broker") as broker:
        warehouse = Warehouse(tmp_path, broker, f"sqlite:///{tmp_path / 'relation.db'}", options)
        feed = threading.Thread(target=warehouse.feed)
        feed.start()
        for _ in range(KILLS):
            before = warehouse.batches()
            job = warehouse.start_job("--set=batch.records=8000")
            wait_for(lambda before=before: warehouse.batches() > before, job)  # type: ignore[misc]
            time.sleep(chance.uniform(0, 3))
            assert job.running
            job.kill()
        feed.join()
        warehouse.run_to_the_end()
        report = warehouse.verify()

    assert report.ok, report.to_json()
    batch = warehouse.batch()
    assert batch is not None
    assert batch.batch_id >= KILLS  # one batch before each kill at least, and one after the last
    assert sum(table.actual for table in report.tables) > 50_000
