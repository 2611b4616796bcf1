"""Scheduled pruning: every night, make all checkpoints below one folder small again.

A query prunes its own logs as it goes; this DAG is for what that leaves: checkpoints of stopped
queries, of Spark's own queries, and stricter limits than a query's own. It is safe while the
queries run, and never removes what a restart could need.

``root`` is any URL that fsspec knows; ``s3://my_conn@bucket/checkpoints`` uses the Airflow
connection ``my_conn``. One task prunes all that match, one after another; its result tells what was
removed from each. One that cannot be pruned does not keep the others from it, and fails the task at
the end, by its name.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import Param, dag

from airflow_provider_continuous.operators.checkpoint import PruneCheckpointOperator

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")


@dag(
    schedule="0 3 * * *",
    catchup=False,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={"root": Param(f"{FOLDER}/checkpoints", type="string", description="Of checkpoints")},
)
def scheduled_pruning() -> None:
    PruneCheckpointOperator(
        task_id="prune",
        checkpoint_location="{{ params.root }}/*",
        keep_epochs=100,
        keep_for=timedelta(hours=1),
        keep_bytes=1 << 30,
    )


scheduled_pruning()
