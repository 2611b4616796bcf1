"""Start, drain, stop, restart, rescale and upgrade a continuous query, or stay with it.

A query is no child of the task that starts it: it runs until it is drained, stopped or fails. What
a task that is killed makes of its query is up to ``on_kill_action``; clearing a task or shutting a
worker down leaves it running.
"""

from airflow_provider_continuous.operators.query.end import (
    DrainContinuousQueryOperator,
    StopContinuousQueryOperator,
)
from airflow_provider_continuous.operators.query.rescale import RescaleContinuousQueryOperator
from airflow_provider_continuous.operators.query.restart import RestartContinuousQueryOperator
from airflow_provider_continuous.operators.query.run import RunContinuousQueryOperator
from airflow_provider_continuous.operators.query.start import StartContinuousQueryOperator
from airflow_provider_continuous.operators.query.upgrade import UpgradeContinuousQueryOperator

__all__ = [
    "DrainContinuousQueryOperator",
    "RescaleContinuousQueryOperator",
    "RestartContinuousQueryOperator",
    "RunContinuousQueryOperator",
    "StartContinuousQueryOperator",
    "StopContinuousQueryOperator",
    "UpgradeContinuousQueryOperator",
]
