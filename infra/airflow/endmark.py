"""A DAG that runs a pipeline in bounded runs: read what Kafka holds, maintain the tables, verify them.

Airflow's workers have endmark and these variables in their environment: ENDMARK_PIPELINE (the pipeline file),
ENDMARK_WAREHOUSE, ENDMARK_CHECKPOINT, ENDMARK_OPS_URL, those that the pipeline file asks for, and those of an
object store. ENDMARK_BOOTSTRAP is for a file without addresses of Kafka.

Airflow's variables say where a job runs:

- endmark_master: the Spark master, such as spark://HOST:7077 or k8s://https://HOST:6443. By default, the job
  runs on Airflow's worker alone. On a cluster, this worker has the driver, and the nodes have executors.
- endmark_buckets: the hash shares of state, two by default. A checkpoint can have a multiple of them later.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id="endmark",
    schedule="*/15 * * * *",
    start_date=datetime(2026, 1, 1),  # noqa: DTZ001  # Airflow takes it as UTC
    # A checkpoint has one driver at a time. A run reads all that Kafka holds, so a skipped run is no loss.
    max_active_runs=1,
    catchup=False,
    # A job goes on from its checkpoint, and maintenance does the work that is left.
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["endmark"],
) as dag:
    run = BashOperator(
        task_id="run",
        bash_command=(
            'endmark run "$ENDMARK_PIPELINE" --master "$MASTER" --buckets "$BUCKETS" --available-now --json'
        ),
        env={
            "MASTER": "{{ var.value.get('endmark_master', 'local[2]') }}",
            "BUCKETS": "{{ var.value.get('endmark_buckets', '2') }}",
        },
        append_env=True,
        execution_timeout=timedelta(hours=6),
    )
    maintain = BashOperator(task_id="maintain", bash_command='endmark maintain "$ENDMARK_PIPELINE" --json')
    # Records that came after the run do not count. A difference does not go away by another try.
    verify = BashOperator(
        task_id="verify",
        bash_command='endmark verify "$ENDMARK_PIPELINE" --until-read --json',
        retries=0,
    )
    run >> maintain >> verify
