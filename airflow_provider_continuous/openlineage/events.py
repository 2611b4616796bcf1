"""Lineage in OpenLineage's own classes. Imported only where the OpenLineage provider is installed.

A query is a streaming job with a run of its own, whose id is that of the engine's run, so whoever
watches the query tells of the same run: RUNNING while it lives, and how it has ended.
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cache
from typing import Any

from airflow.providers.openlineage import conf
from airflow.providers.openlineage.extractors import OperatorLineage
from airflow.providers.openlineage.plugins.adapter import OpenLineageAdapter
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import (
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    schema_dataset,
)

from airflow_provider_continuous.openlineage.datasets import DataSet, Lineage
from airflow_provider_continuous.view.overview import QueryOverview
from engine.checkpoint.query_state import QueryState

_told_ends: dict[str, RunState] = {}
_PRODUCER = "urn:airflow-provider-continuous"
_ENDS = {
    QueryState.STOPPED: RunState.COMPLETE,
    QueryState.FAILED: RunState.FAIL,
    QueryState.LOST: RunState.ABORT,
}


def operator_lineage(lineage: Lineage) -> Any:
    """Return what an operator tells of its query."""
    return OperatorLineage(
        inputs=_inputs(lineage),
        outputs=_outputs(lineage),
        job_facets={"jobType": _job_type()},
    )


def is_on() -> bool:
    """Tell whether the OpenLineage provider is to send events."""
    return not conf.is_disabled()


def emit(overview: QueryOverview, lineage: Lineage) -> None:
    """Tell how a query goes; nothing if it never ran, and its end only once. Never raises: the
    adapter logs a failure."""
    event = run_event(overview, lineage)
    if event is None:
        return
    is_over = event.eventType in _ENDS.values()
    if is_over and _told_ends.get(event.run.runId) is event.eventType:
        return
    _adapter().emit(event)
    if is_over:
        _told_ends[event.run.runId] = event.eventType
    else:  # one that was LOST may be back
        _told_ends.pop(event.run.runId, None)


def run_event(overview: QueryOverview, lineage: Lineage) -> Any:
    """Return the event of one look at a query, None if it has no run.

    The output has the rows of the last committed epoch.
    """
    status = overview.status
    if status.run_id is None or status.state is QueryState.UNKNOWN:
        return None
    facets: dict[str, Any] = {}
    if overview.error is not None and status.state is QueryState.FAILED:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
            message=overview.error, programmingLanguage="python"
        )
    return RunEvent(
        eventType=_ENDS.get(status.state, RunState.RUNNING),
        eventTime=datetime.now(timezone.utc).isoformat(),
        run=Run(runId=status.run_id, facets=facets),
        job=Job(
            namespace=conf.namespace(),
            name=f"continuous.{overview.name}",
            facets={"jobType": _job_type()},
        ),
        inputs=_inputs(lineage),
        outputs=_outputs(lineage, overview.summary.rows_written),
        producer=_PRODUCER,
    )


def _inputs(lineage: Lineage) -> list[Any]:
    return [
        InputDataset(each.namespace, each.name, facets=_facets(each)) for each in lineage.inputs
    ]


def _outputs(lineage: Lineage, rows: int | None = None) -> list[Any]:
    """:param rows: that an epoch has brought, if that is known."""
    facets: dict[str, Any] = {}
    if rows is not None:
        statistics = output_statistics_output_dataset
        facets["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(rowCount=rows)
    return [
        OutputDataset(each.namespace, each.name, facets=_facets(each), outputFacets=facets)
        for each in lineage.outputs
    ]


def _facets(dataset: DataSet) -> dict[str, Any]:
    if not dataset.fields:
        return {}
    columns = [
        schema_dataset.SchemaDatasetFacetFields(name=name, type=type_)
        for name, type_ in dataset.fields
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=columns)}


def _job_type() -> Any:
    return job_type_job.JobTypeJobFacet(
        processingType="STREAMING", integration="CONTINUOUS", jobType="QUERY"
    )


@cache
def _adapter() -> Any:
    return OpenLineageAdapter()
