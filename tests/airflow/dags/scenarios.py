"""Small DAGs for the tests with real Airflow processes; paths come with each run."""

from __future__ import annotations

from typing import Any

from airflow.sdk import task
from scenario_parts import CHECKPOINT, SPEC, scenario

from airflow_provider_continuous.operators.query import (
    DrainContinuousQueryOperator,
    StartContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from airflow_provider_continuous.sensors.epoch import EpochCommittedSensor


def sensor(name: str, **arguments: Any) -> None:
    with scenario(name):
        EpochCommittedSensor(
            task_id="wait", checkpoint_location=CHECKPOINT, timeout=240, **arguments
        )


sensor("wait_deferred", epoch="{{ params.epoch }}")
sensor("wait_rescheduled", epochs_from_now=2, mode="reschedule", poke_interval=6)

with scenario("start"):
    StartContinuousQueryOperator(
        task_id="start", spec=SPEC, wait_for="{{ params.epoch }}", timeout=240
    )

with scenario("start_attended"):
    StartContinuousQueryOperator(
        task_id="start", spec=SPEC, wait_for="{{ params.epoch }}", timeout=240, deferrable=False
    )

with scenario("start_decorated"):

    @task.continuous_query(
        checkpoint_location=CHECKPOINT,
        settings={"conf": SPEC["conf"]},
        wait_for="{{ params.epoch }}",
        timeout=240,
    )
    def decorated(spark, rows_per_second):  # type: ignore[no-untyped-def]
        from engine import write_stream

        stream = spark.readStream.format("rate").option("rowsPerSecond", rows_per_second).load()
        return write_stream(stream).format("noop").trigger(continuous="500 milliseconds")

    decorated(rows_per_second="{{ 5 * 10 }}")

with scenario("start_query_that_fails"):
    StartContinuousQueryOperator(
        task_id="start",
        spec={**SPEC, "sql": "SELECT no_such_column FROM source"},
        timeout=240,
        retries=0,
    )

with scenario("drain"):
    DrainContinuousQueryOperator(task_id="drain", checkpoint_location=CHECKPOINT, timeout=240)

with scenario("stop"):
    StopContinuousQueryOperator(task_id="stop", checkpoint_location=CHECKPOINT, timeout=240)
