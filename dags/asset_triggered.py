"""Asset-triggered: every fifth epoch of a query starts a batch run that knows exactly what is new.

The asset is the output of the query that ``always_on`` runs. The triggerer watches the query's
checkpoint and makes committed epochs an event of the asset; none is missed and none is told twice,
whatever is restarted. Airflow starts this DAG for the events, and the task works on the epochs from
``first_epoch`` to ``epoch``: their rows are committed and will not change.

Other DAGs may use the same asset, each at its own pace.
"""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import dag, task

from airflow_provider_continuous.assets.events import committed_epochs
from airflow_provider_continuous.assets.uris import query_asset

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")

always_on_rows = query_asset(
    f"{FOLDER}/checkpoints/always-on", name="always-on", every=5, from_epoch=0
)


@dag(
    schedule=[always_on_rows],
    max_active_runs=1,
    is_paused_upon_creation=True,
    tags=["continuous", "example"],
    doc_md=__doc__,
)
def asset_triggered() -> None:
    @task(inlets=[always_on_rows])
    def batch(**context: Any) -> dict[str, Any]:
        """Stands for the batch work."""
        epochs = committed_epochs(context, always_on_rows)  # type: ignore[arg-type]
        if not epochs:
            return {"rows": 0}
        return {
            "first_epoch": epochs[0]["first_epoch"],
            "epoch": epochs[-1]["epoch"],
            "rows": sum(told["rows"] or 0 for told in epochs),
        }

    batch()


asset_triggered()
