"""Scheduled pruning: every night, make all checkpoints below one folder small again.

A query prunes its own logs as it goes; this DAG is for what that leaves: checkpoints of stopped
queries, of Spark's own queries, and stricter limits than a query's own. It is safe while the
queries run, and never removes what a restart could need.

``root`` is any URL that fsspec knows; ``s3://my_conn@bucket/checkpoints`` uses the Airflow
connection ``my_conn``. One mapped task per checkpoint: its result tells what was removed.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import ObjectStoragePath, Param, dag, task

from airflow_provider_continuous.operators.checkpoint import PruneCheckpointOperator

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")


@dag(
    schedule="0 3 * * *",
    catchup=False,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={"root": Param(FOLDER, type="string", description="The folder of the checkpoints")},
)
def scheduled_pruning() -> None:
    @task
    def checkpoints(root: str) -> list[str]:
        """Every folder below ``root`` that a query has used as its checkpoint."""
        return [str(path) for path in ObjectStoragePath(root).iterdir() if _is_checkpoint(path)]

    PruneCheckpointOperator.partial(
        task_id="prune", keep_epochs=100, keep_for=timedelta(hours=1)
    ).expand(checkpoint_location=checkpoints("{{ params.root }}"))


def _is_checkpoint(path: ObjectStoragePath) -> bool:
    return (path / "metadata").is_file() and (path / "commits").is_dir()


scheduled_pruning()
