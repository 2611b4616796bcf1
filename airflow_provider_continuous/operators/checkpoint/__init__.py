"""Look after checkpoints: inspect, prune, pin, rewind and copy them, tell how their queries are.

Of this engine or of Spark itself, while their queries run or not; where one of the two is not
possible, the operator says so and changes nothing.
"""

from __future__ import annotations

from airflow_provider_continuous.operators.checkpoint.copy import CopyCheckpointOperator
from airflow_provider_continuous.operators.checkpoint.inspect import InspectCheckpointOperator
from airflow_provider_continuous.operators.checkpoint.pin import (
    PinEpochOperator,
    UnpinEpochOperator,
)
from airflow_provider_continuous.operators.checkpoint.prune import PruneCheckpointOperator
from airflow_provider_continuous.operators.checkpoint.publish import PublishMetricsOperator
from airflow_provider_continuous.operators.checkpoint.rewind import RewindCheckpointOperator

__all__ = [
    "CopyCheckpointOperator",
    "InspectCheckpointOperator",
    "PinEpochOperator",
    "PruneCheckpointOperator",
    "PublishMetricsOperator",
    "RewindCheckpointOperator",
    "UnpinEpochOperator",
]
