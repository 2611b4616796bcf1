"""Upgrade with roll back: a new version of a query takes over, or the old one comes back.

The old version is drained, the new one goes on from its checkpoint. Three epochs of the new
version have to commit; if they do not, or it fails, it is stopped, the checkpoint rewound to where
the old version had come, the sink takes back what the new one has written, and the old version goes
on. Either way one version runs in the end, and ``upgrade`` tells which.

``sql`` is the new version. Try one that divides by zero.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import Param, dag, task

from airflow_provider_continuous.operators.query import (
    StartContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
)

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")
MASTER = os.environ.get("CONTINUOUS_DEMO_MASTER", "local[1]")

OLD = {
    "name": "upgraded",
    "source": {"format": "rate", "options": {"rowsPerSecond": "20", "numPartitions": "1"}},
    "sql": "SELECT value, value * 2 AS doubled FROM source",
    "sink": {"format": "parquet", "options": {"path": "{{ params.output }}"}},
    "trigger": {"continuous": "1 second"},
    "checkpoint_location": "{{ params.checkpoint }}",
    "conf": {"spark.master": "{{ params.master }}"},
}


@dag(
    schedule=None,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={
        "sql": Param(
            "SELECT value, value * 2 AS doubled FROM source WHERE value % 10 = 0", type="string"
        ),
        "output": Param(f"{FOLDER}/output/upgraded", type="string"),
        "checkpoint": Param(f"{FOLDER}/checkpoints/upgraded", type="string"),
        "master": Param(MASTER, type="string", description="Where the query runs"),
    },
)
def upgrade_with_roll_back() -> None:
    old = StartContinuousQueryOperator(
        task_id="old",
        spec=OLD,
        on_changed="adopt",  # in a later run it is the version of the run before
        wait_for=1,
        timeout=180,
    )
    upgrade = UpgradeContinuousQueryOperator(
        task_id="upgrade",
        spec={**OLD, "sql": "{{ params.sql }}"},
        rollback_spec=OLD,
        watch_epochs=3,
        watch_timeout=120,
        on_rollback="succeed",
        timeout=180,
    )

    @task
    def report(upgrade: dict[str, Any]) -> str:
        """Say which version runs."""
        if upgrade["upgraded"]:
            return f"The new version runs since epoch {upgrade['epoch']}"
        return f"The old version runs again: {upgrade['error']}"

    old >> upgrade
    report(upgrade.output)  # type: ignore[arg-type]


upgrade_with_roll_back()
