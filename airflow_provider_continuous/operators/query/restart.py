"""Restart a query, from where it was or from an earlier epoch."""

from __future__ import annotations

from typing import Any

from airflow_provider_continuous.operators.query.start import StartContinuousQueryOperator


class RestartContinuousQueryOperator(StartContinuousQueryOperator):
    """Ends the run that holds a checkpoint, and starts the query again.

    It is :class:`StartContinuousQueryOperator` with ``on_running="replace"``, whose other
    parameters it has: ``end``, ``from_epoch`` and ``accept_repeats`` among them. A query that does
    not run is only started. A retry goes on where the attempt before was interrupted: it neither
    restarts nor rewinds twice, so it needs a task that remembers, of Airflow 3.3.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(on_running="replace", **kwargs)
