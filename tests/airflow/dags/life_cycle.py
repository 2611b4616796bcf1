"""DAGs that stay with a query, restart and upgrade it; paths come with each run.

The queries are real processes, but ``stand_in.py`` instead of Spark.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scenario_parts import SPEC, scenario

from airflow_provider_continuous.deploy import submission
from airflow_provider_continuous.operators.query import (
    RestartContinuousQueryOperator,
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
    UpgradeContinuousQueryOperator,
)

submission.ENGINE = (sys.executable, str(Path(__file__).parents[1] / "stand_in.py"))

with scenario("run"):
    RunContinuousQueryOperator(task_id="run", spec=SPEC, timeout=240, restart_delay=1)

with scenario("run_attended"):
    RunContinuousQueryOperator(task_id="run", spec=SPEC, timeout=240, deferrable=False)

with scenario("start_stand_in"):
    StartContinuousQueryOperator(task_id="start", spec=SPEC, wait_for="{{ params.epoch }}")

with scenario("run_until_epoch"):
    RunContinuousQueryOperator(
        task_id="run", spec=SPEC, timeout=240, until_epoch="{{ params.epoch }}"
    )

with scenario("upgrade"):
    UpgradeContinuousQueryOperator(
        task_id="upgrade",
        spec={**SPEC, "sql": "SELECT value + 1 AS value FROM source"},
        rollback_spec=SPEC,
        watch_epochs=2,
        timeout=240,
    )

with scenario("upgrade_that_is_refused"):
    UpgradeContinuousQueryOperator(
        task_id="upgrade",
        spec={**SPEC, "conf": {"stand_in": "refused"}},
        rollback_spec=SPEC,
        timeout=240,
    )

with scenario("restart"):
    RestartContinuousQueryOperator(
        task_id="restart", spec=SPEC, from_epoch="{{ params.epoch }}", timeout=240
    )
