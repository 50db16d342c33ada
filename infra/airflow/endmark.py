"""A DAG that runs a pipeline in bounded runs: read what Kafka holds, maintain the tables, verify them.

Airflow's workers have endmark and these variables: ENDMARK_PIPELINE (the pipeline file), ENDMARK_BOOTSTRAP,
ENDMARK_WAREHOUSE, ENDMARK_CHECKPOINT, ENDMARK_OPS_URL, and those that the pipeline file asks for.
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
        bash_command='endmark run "$ENDMARK_PIPELINE" --available-now --json',
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
