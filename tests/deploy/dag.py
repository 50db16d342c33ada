"""infra/airflow in a real Airflow, one run of it against real parts: `make test-deploy`.

python -m deploy.dag PYTHON, the interpreter of an environment with Airflow
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from endmark.embedded.broker import Broker
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from support.warehouse import Warehouse

ROOT = Path(__file__).parents[2]
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
    done = subprocess.run([python, *words], check=False, capture_output=True, text=True, timeout=600)
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


def test_two_runs(python: Path, warehouse: Warehouse) -> None:
    """The first verifies what it has read although more comes meanwhile; the second reads that."""
    feed = threading.Thread(target=warehouse.feed)
    feed.start()
    time.sleep(5)
    airflow(python, "-m", "airflow", "dags", "test", "endmark")
    batches = warehouse.batches()
    feed.join()
    airflow(python, "-m", "airflow", "dags", "test", "endmark")
    assert warehouse.batches() > batches > 0
    assert warehouse.verify().ok


def main() -> None:
    python = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(prefix="endmark-airflow-") as scratch:
        directory = Path(scratch)
        os.environ |= {
            "AIRFLOW_HOME": str(directory / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "infra" / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }
        airflow(python, "-m", "airflow", "db", "migrate")
        test_the_dag_is_as_meant(python)
        print("test_the_dag_is_as_meant: passed", flush=True)
        feed = FeedOptions(seed=5, minutes=2.0, rate=300, sellers=1_000, bad_rate=0.002)
        with Broker(directory / "broker") as broker:
            warehouse = Warehouse(directory, broker, f"sqlite:///{directory / 'relation.db'}", feed)
            os.environ |= warehouse.environment()
            os.environ |= {"ENDMARK_PIPELINE": str(AUCTION), "ENDMARK_RELATION_URL": warehouse.relation_url}
            test_two_runs(python, warehouse)
        print("test_two_runs: passed")


if __name__ == "__main__":
    main()
