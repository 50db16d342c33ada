"""infra/airflow in a real Airflow, with tables and checkpoint in S3: `make test-deploy`.

The first run is on this machine alone, and two more are on a Spark cluster whose workers share no volume.

python -m deploy.dag PYTHON, the interpreter of an environment with Airflow
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from cluster.standalone import Cluster
from endmark.client import Delivery
from endmark.embedded.broker import Broker
from endmark.pipelines import AUCTION
from endmark.storage import StoreUrl
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.message import BIDS, ITEMS
from endmark_feed.producer import create_topics, send, when_due
from endmark_feed.workload import messages
from support.s3_server import S3Server
from support.warehouse import Warehouse

ROOT = Path(__file__).parents[2]
_SECONDS_OF_A_RUN = 300.0
STRUCTURE = """
import json
from airflow.models.dagbag import DagBag
bag = DagBag(include_examples=False)
[dag] = bag.dags.values()
print(json.dumps({
    "errors": {str(path): error for path, error in bag.import_errors.items()},
    "dag": dag.dag_id,
    "runs": dag.max_active_runs,
    "catchup": dag.catchup,
    "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
    "retries": {task.task_id: task.retries for task in dag.tasks},
}))
"""


def airflow(python: Path, *words: str) -> str:
    """Run a command of Airflow's environment and return its output; a failure fails the test."""
    done = subprocess.run([python, *words], check=False, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_dag_is_as_meant(python: Path) -> None:
    """One run at a time, and nothing is verified that may still be written."""
    found = json.loads(airflow(python, "-c", STRUCTURE).splitlines()[-1])
    assert found == {
        "errors": {},
        "dag": "endmark",
        "runs": 1,
        "catchup": False,
        "tasks": {"run": ["maintain"], "maintain": ["verify"], "verify": []},
        "retries": {"run": 2, "maintain": 2, "verify": 0},
    }


class Feed(threading.Thread):
    """The auction's workload in real time. It stops at a moment, so that each run has records of its own.

    Attributes:
        until: the seconds of the workload that may come. With infinity, all of the rest comes at once.
    """

    def __init__(self, options: FeedOptions, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.until = _SECONDS_OF_A_RUN
        self._options = options
        self._brokers = bootstrap
        create_topics(bootstrap, {ITEMS: options.partitions.items, BIDS: options.partitions.bids})

    def run(self) -> None:
        started = time.monotonic()
        with Delivery(self._brokers) as delivery:
            for chunk in when_due(
                messages(self._options),
                lambda: self.until if math.isinf(self.until) else time.monotonic() - started,
            ):
                while chunk[-1].due_seconds > self.until:
                    time.sleep(0.2)
                send(delivery, chunk)


def run_once(python: Path) -> None:
    """Run the three tasks of the DAG; each must succeed."""
    airflow(python, "-m", "airflow", "dags", "test", "endmark")


def test_runs_here_and_on_a_cluster(python: Path, warehouse: Warehouse, cluster: Cluster) -> None:
    """Each run goes on from the checkpoint of the one before it, wherever that was.

    The first two verify what they have read, although more comes meanwhile.
    """
    workers = [cluster.start_worker() for _ in range(2)]
    feed = Feed(warehouse.feed_options, warehouse.broker.bootstrap)
    feed.start()
    time.sleep(5)
    run_once(python)
    here = warehouse.batches()
    assert [worker.executors() for worker in workers] == [0, 0]
    feed.until += _SECONDS_OF_A_RUN
    os.environ["AIRFLOW_VAR_ENDMARK_MASTER"] = cluster.url
    run_once(python)
    there = warehouse.batches()
    feed.until = math.inf
    feed.join()
    run_once(python)
    assert warehouse.batches() > there > here > 0
    assert [worker.executors() for worker in workers] == [2, 2]
    kept = [path for name in ("checkpoint", "warehouse") for path in warehouse.directory.rglob(name)]
    kept = [path for path in kept if "s3" not in path.parts]
    assert not kept, f"files of the job are outside the object store: {kept}"
    report = warehouse.verify()
    assert report.ok, report.to_json()
    print(f"{sum(table.actual for table in report.tables)} rows as recomputed", flush=True)


def main() -> None:
    python = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(prefix="endmark-airflow-") as scratch, ExitStack() as stack:
        directory = Path(scratch)
        os.environ |= {
            "AIRFLOW_HOME": str(directory / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "infra" / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_VAR_ENDMARK_BUCKETS": "4",
        }
        airflow(python, "-m", "airflow", "db", "migrate")
        test_the_dag_is_as_meant(python)
        print("test_the_dag_is_as_meant: passed", flush=True)
        feed = FeedOptions(seed=5, minutes=15.0, rate=60, sellers=1_000, bad_rate=0.002)
        broker = stack.enter_context(Broker(directory / "broker"))
        store = stack.enter_context(S3Server(directory / "s3"))
        os.environ |= store.environment()
        bucket = StoreUrl(store.make_bucket("shop"))
        relation = f"sqlite:///{directory / 'relation.db'}"
        warehouse = Warehouse(
            directory, broker, relation, feed, tables=bucket / "tables", checkpoint=bucket / "checkpoint"
        )
        os.environ |= warehouse.environment()
        os.environ |= {"ENDMARK_PIPELINE": str(AUCTION), "ENDMARK_RELATION_URL": relation}
        cluster = stack.enter_context(Cluster(directory))
        test_runs_here_and_on_a_cluster(python, warehouse, cluster)
        print("test_runs_here_and_on_a_cluster: passed")


if __name__ == "__main__":
    main()
