"""Tell of queries that nobody waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_continuous.compat import AirflowException, AirflowSkipException
from airflow_provider_continuous.errors import final_errors
from airflow_provider_continuous.observing.publishing import publish_now, somebody_listens
from airflow_provider_continuous.operators.checkpoint.base import CheckpointOperator
from engine.checkpoint.find import is_pattern
from engine.commands.result import format_table
from engine.redaction.logs import redact

if TYPE_CHECKING:
    from airflow.sdk import Context


class PublishMetricsOperator(CheckpointOperator):
    """Sends the metrics of queries to Airflow's Stats, and their lineage events, as tasks and
    triggers do of the queries that they wait for.

    Returns ``{"published": [...]}``, the locations of the checkpoints. One that
    cannot be read does not keep the others from it, and fails the task at the end, by its name.
    Skips itself if neither Airflow's metrics nor OpenLineage are on.

    :param checkpoint_location: path or URL of a checkpoint, or with a ``*`` of all that match
        (templated): ``/data/checkpoints/*``.
    :param storage_conn_id: the Airflow connection that opens the storage (templated).
    """

    def execute(self, context: Context) -> dict[str, Any]:
        """Look at each query once, and tell."""
        if not somebody_listens():
            raise AirflowSkipException(
                "Nobody listens: set statsd_on, statsd_datadog_enabled or otel_on in [metrics], or "
                "configure OpenLineage."
            )
        with final_errors():
            if is_pattern(str(self.checkpoint_location)):
                hooks = self.matching_hooks()
            else:
                hooks = [self.hook()]
        told: dict[str, list[Any]] = {}
        failed: dict[str, str] = {}
        for hook in hooks:
            location = hook.location.url
            try:
                seen = publish_now(hook.checkpoint, location)
            except Exception as error:  # of a metrics client or a lineage backend, too
                failed[location] = redact(str(error))
                self.log.error("%s: %s", location, failed[location])
            else:
                told[location] = [seen.name, seen.status.state, seen.status.epoch, seen.lag_s]
        rows = [[location, *values] for location, values in told.items()]
        columns = ["checkpoint", "query", "state", "epoch", "lag s"]
        self.log.info("Told of %d queries:\n%s", len(told), format_table(columns, rows))
        if failed:
            listed = "\n".join(f"{location}: {error}" for location, error in failed.items())
            raise AirflowException(f"{len(failed)} of {len(hooks)} were not told of:\n{listed}")
        return {"published": list(told)}
