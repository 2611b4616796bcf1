"""Rewind and replay: take a query back to an epoch, and let it do the rest again.

For the day on which a bad epoch was committed. The query is drained, its checkpoint rewound to the
last good epoch, and the sink takes back the rows of what came later; then the query starts again
and reads on from that epoch's offsets, with a specification that is right now. Rewinding deletes
nothing: what was taken off the logs stays in the checkpoint's folder ``rewound``.

Nothing is rewound under a running query: the operator refuses it. ``epoch`` is the last epoch that
stays.
"""

from __future__ import annotations

import os

from airflow.sdk import Param, dag

from airflow_provider_continuous.operators.checkpoint import RewindCheckpointOperator
from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor

FOLDER = os.environ.get("CONTINUOUS_DEMO_DIR", "/tmp/continuous-demo")
MASTER = os.environ.get("CONTINUOUS_DEMO_MASTER", "local[1]")
CHECKPOINT = "{{ params.checkpoint }}"

SPEC = {
    "name": "replayed",
    "source": {"format": "rate", "options": {"rowsPerSecond": "20", "numPartitions": "1"}},
    "sql": "SELECT value, value * 2 AS doubled FROM source",
    "sink": {"format": "parquet", "options": {"path": "{{ params.output }}"}},
    "trigger": {"continuous": "1 second"},
    "checkpoint_location": CHECKPOINT,
    "conf": {"spark.master": "{{ params.master }}"},
}


@dag(
    schedule=None,
    tags=["continuous", "example"],
    doc_md=__doc__,
    params={
        "output": Param(f"{FOLDER}/output/replayed", type="string"),
        "checkpoint": Param(f"{FOLDER}/checkpoints/replayed", type="string"),
        "master": Param(MASTER, type="string", description="Where the query runs"),
        "epoch": Param(1, type="integer", minimum=0, description="The last epoch that stays"),
    },
)
def rewind_and_replay() -> None:
    start = StartContinuousQueryOperator(
        task_id="start",
        spec=SPEC,
        wait_for="{{ params.epoch + 2 }}",
        timeout=180,
        on_kill_action="drain",
    )
    halt = DrainContinuousQueryOperator(task_id="halt", checkpoint_location=CHECKPOINT)
    rewind = RewindCheckpointOperator(
        task_id="rewind", checkpoint_location=CHECKPOINT, to_epoch="{{ params.epoch }}"
    )
    replay = StartContinuousQueryOperator(
        task_id="replay", spec=SPEC, timeout=180, on_kill_action="drain"
    )
    replayed = EpochCommittedSensor(
        task_id="replayed",
        checkpoint_location=CHECKPOINT,
        epoch="{{ ti.xcom_pull('halt')['epoch'] }}",
        timeout=180,
    )
    end = DrainContinuousQueryOperator(task_id="end", checkpoint_location=CHECKPOINT)
    start >> halt >> rewind >> replay >> replayed >> end.as_teardown(setups=[start, replay])


rewind_and_replay()
