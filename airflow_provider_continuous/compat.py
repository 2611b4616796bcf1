"""What Airflow's versions have in different places, and what those before 3.3 lack.

Import from here what 3.1 and 3.2 keep elsewhere. README says what older versions cannot do.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

AIRFLOW_VERSION = version("apache-airflow-core")
RELEASE = tuple(map(int, AIRFLOW_VERSION.split(".")[:2]))

if TYPE_CHECKING or RELEASE >= (3, 2):
    from airflow.sdk import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRescheduleException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferred,
    )
else:
    from airflow.configuration import conf
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRescheduleException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferred,
    )

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = [
    "AIRFLOW_VERSION",
    "NEVER_EXPIRE",
    "RELEASE",
    "AdvanceItem",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowRescheduleException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "SharedStreamProducer",
    "TaskDeferred",
    "conf",
    "load_provider_defaults",
    "task_state_store",
]

if TYPE_CHECKING or RELEASE >= (3, 3):
    from airflow.sdk.execution_time.context import NEVER_EXPIRE
    from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer
else:
    NEVER_EXPIRE = None  # nothing is kept there, so nothing expires


def load_provider_defaults() -> None:
    """Make the defaults of the providers' sections known; from Airflow 3.2 on they always are."""
    if RELEASE < (3, 2):
        from airflow.providers_manager import ProvidersManager

        ProvidersManager().initialize_providers_configuration()  # type: ignore[no-untyped-call]


def task_state_store(context: Context) -> Any:
    """Return what outlives a task's attempt, None before Airflow 3.3: there is nothing such."""
    return context.get("task_state_store")


def __getattr__(name: str) -> Any:
    """Say why a name is missing, to a module that cannot do without."""
    if name in __all__:
        raise ImportError(f"{name} came with Airflow 3.3; this is Airflow {AIRFLOW_VERSION}.")
    raise AttributeError(name)
