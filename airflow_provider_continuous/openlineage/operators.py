"""QueryLineage: what an operator that runs a query tells OpenLineage about it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from airflow_provider_continuous.connections.document import with_connections
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.openlineage.datasets import Lineage, lineage_of, recorded
from airflow_provider_continuous.tasks.query_note import location_of
from engine.errors import ConfigError


class QueryLineage:
    """For operators with a ``checkpoint_location`` or a ``spec``; the OpenLineage provider calls
    these when the task starts, ends or fails."""

    def get_openlineage_facets_on_start(self) -> Any:
        """Return the query's inputs and outputs, as an ``OperatorLineage``."""
        from airflow_provider_continuous.openlineage.events import operator_lineage

        return operator_lineage(self.lineage())

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the query's inputs and outputs, which may have changed by its start."""
        return self.get_openlineage_facets_on_start()

    def lineage(self) -> Lineage:
        """Tell what the query reads and writes: what it has recorded itself, else what the task
        asks for.

        :raises CheckpointError: the checkpoint cannot be read.
        """
        location = location_of(self)
        found = Lineage()
        if location is not None:
            hook = CheckpointHook(location, getattr(self, "storage_conn_id", None))
            found = recorded(hook.checkpoint)
        spec = getattr(self, "spec", None)
        if found != Lineage() or not isinstance(spec, Mapping):
            return found
        with suppress(ConfigError):  # the task says what is wrong with a connection
            spec = with_connections(spec)
        return lineage_of(spec)
