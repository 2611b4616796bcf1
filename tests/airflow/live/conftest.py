"""One Airflow for the tests in this folder, which ends behind the last of them: also an idle one
takes a seventh of a core."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.local_airflow.processes import AirflowProcesses
from scripts.local_airflow.rest import AirflowClient
from tests.airflow.installed import python_path
from tests.airflow.pages import Page
from tests.servers import postgresql

_AROUND = Path(__file__).parents[1]


@pytest.fixture(scope="package")
def airflow_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowProcesses]:
    """A real Airflow, one for all tests, with the example DAGs, those of the scenarios, and those
    of the guide, whose ``/data`` is beside Airflow's home.

    On PostgreSQL: on SQLite, a call that writes waits in the api-server's only thread for another
    one, which needs that thread to commit. Both stand still until SQLite's timeout, then it
    answers 500.
    """
    if reason := postgresql.missing():
        pytest.skip(f"PostgreSQL below Airflow: {reason}")
    root = tmp_path_factory.mktemp("airflow")
    shutil.copytree(_AROUND.parents[1] / "dags", root / "dags")
    shutil.copytree(_AROUND / "dags", root / "dags", dirs_exist_ok=True)
    Page("kafka-to-delta.md", {"/data": str(root / "data")}).write_files(root)
    shutil.copy(_AROUND / "stand_in.py", root)
    changes = {
        "PYTHONPATH": python_path(root / "installed"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
        "AIRFLOW__CONTINUOUS__PAGE_REFRESH": "1",
        # Nobody changes them; one that took too long would not be read again in time.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
        "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
    }
    with postgresql.airflow_database() as database:
        processes = AirflowProcesses(
            root / "home", root / "dags", environment={**changes, **database}
        )
        with processes:
            yield processes


@pytest.fixture(scope="package")
def airflow(airflow_processes: AirflowProcesses) -> AirflowClient:
    """Its API."""
    return airflow_processes.client
