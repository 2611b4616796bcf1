"""Links from a task to its query: the query's page, its checkpoint, Spark's own pages.

Airflow asks for them in the worker whenever a task ends or defers, and keeps the answer. A link
that has nowhere to lead is empty, and Airflow shows no button.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink

from airflow_provider_continuous.compat import conf
from airflow_provider_continuous.hooks.checkpoint import CheckpointHook
from airflow_provider_continuous.observing.places import place_of
from airflow_provider_continuous.observing.pool import POOL
from airflow_provider_continuous.tasks.query_note import location_of
from airflow_provider_continuous.view.addresses import quoted
from airflow_provider_continuous.view.overview import spark_ui
from engine.errors import ContinuousError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PAGES = "/continuous"
"""Where the plugin's pages are, below Airflow's own address."""

PATIENCE_S = 3.0
"""No button is worth more: Airflow asks for them before it calls back that the task has ended."""


class QueryPageLink(BaseOperatorLink):
    """The page that shows the task's query."""

    name = "Query"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the query's page."""
        return query_page(location_of(operator, ti_key))


class CheckpointLink(BaseOperatorLink):
    """The epochs and pins of the query's checkpoint."""

    name = "Checkpoint"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the checkpoint's epochs."""
        page = query_page(location_of(operator, ti_key))
        return f"{page}#epochs" if page else ""


class SparkUiLink(BaseOperatorLink):
    """Spark's own pages, if the query's session has them switched on."""

    name = "Spark UI"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the address that the running query tells through its lease."""
        location = location_of(operator, ti_key)
        if location is None:
            return ""
        try:
            hook = CheckpointHook(location, getattr(operator, "storage_conn_id", None))
            look = POOL.within(place_of(location), lambda: hook.checkpoint.look(), PATIENCE_S)
        except ContinuousError:
            return ""  # the task itself tells what is wrong with its checkpoint
        return spark_ui(look.status) or ""


PAGE_LINKS = (QueryPageLink(), CheckpointLink())
"""For ``operator_extra_links`` of what has a ``checkpoint_location``; they cost no look at it."""

QUERY_LINKS = (*PAGE_LINKS, SparkUiLink())
"""For operators that start and end queries."""


def query_page(location: str | None) -> str:
    """Return the address of the page of a checkpoint; empty without one."""
    if not location:
        return ""
    base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    return f"{base}{PAGES}/query?at={quoted(location)}"
