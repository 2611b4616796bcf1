"""Query metrics: every minute, tell Airflow's metrics how all queries below one folder are.

Tasks and triggers set the gauges of the queries that they wait for. This DAG is for all others: one
that was started and left alone, one that somebody runs on the command line, one that has failed at
night. It reads the checkpoints, and so needs no way to the queries' processes.

``root`` is any URL that fsspec knows; ``s3://my_conn@bucket/checkpoints`` uses the Airflow
connection ``my_conn``. The task is skipped while Airflow's metrics are off (``[metrics]
statsd_on``, ``statsd_datadog_enabled`` or ``otel_on``).
"""

from __future__ import annotations

import os
from datetime import timedelta

import pendulum
from airflow.sdk import Param, dag

from airflow_provider_continuous.operators.checkpoint import PublishMetricsOperator

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")


@dag(
    schedule=timedelta(minutes=1),
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={"root": Param(f"{FOLDER}/checkpoints", type="string", description="Of checkpoints")},
)
def query_metrics() -> None:
    PublishMetricsOperator(task_id="publish", checkpoint_location="{{ params.root }}/*")


query_metrics()
