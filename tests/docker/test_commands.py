"""Every command and every health check of the containers, run without Docker."""

from __future__ import annotations

import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from local_airflow.rest import AirflowClient, wait_for
from tests.docker.without_docker import DOCKER, Stack, read_env, services
from tests.servers import postgresql
from tests.servers.postgresql import DatabaseOfCommand


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of secrets, as docker/up.sh makes it."""
    path = tmp_path_factory.mktemp("env") / ".env"
    subprocess.run([DOCKER / "make_env.sh", path], check=True)
    return path


@pytest.fixture(scope="module")
def stack(env: Path) -> Iterator[Stack]:
    """All services."""
    if not _has_address("127.1.2.3"):
        pytest.skip("this machine has one loopback address, and each service needs its own")
    root = Path(tempfile.mkdtemp(prefix="compose-"))
    values, database, changes = read_env(env), None, {}
    reason = postgresql.missing()
    if reason:
        print(f"On SQLite instead of PostgreSQL; {reason}", file=sys.__stderr__)
        changes["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{root}/airflow.db"
    else:
        said = services()["airflow-database"]["environment"]
        database = DatabaseOfCommand(said | {"POSTGRES_PASSWORD": values["POSTGRES_PASSWORD"]})
    stack = Stack(root, values, changes, database.start if database else None)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
        if database:
            database.remove()
        shutil.rmtree(root)


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.parametrize("service", [name for name in services() if name != "airflow-database"])
def test_a_service_runs_and_its_health_check_says_so(stack: Stack, service: str) -> None:
    stack.wait_until_healthy(service)
    ended = stack.running[service].poll()
    assert ended is None or service == "airflow-init"


@pytest.mark.airflow
@pytest.mark.spark
def test_the_database_runs_and_its_health_check_says_so(stack: Stack) -> None:
    if postgresql.missing():
        pytest.skip(f"no PostgreSQL here, Airflow runs on SQLite; {postgresql.missing()}")
    stack.wait_until_healthy("airflow-database")


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.parametrize("service", ["airflow-scheduler", "spark-worker-2"])
def test_a_health_check_notices_a_service_that_is_gone(stack: Stack, service: str) -> None:
    """Its command, with an address where nothing runs."""
    here = dict(stack.hosts)
    words = stack.services[service]["healthcheck"]["test"][1:]
    stack.hosts[service] = "127.250.250.250"
    try:
        command = [stack.here(word) for word in words]
    finally:
        stack.hosts.update(here)
    checked = subprocess.run(command, env=stack.environment(service), capture_output=True)
    assert checked.returncode == 1, checked.stderr


@pytest.mark.airflow
@pytest.mark.spark
def test_the_login_of_the_env_file_opens_it(stack: Stack, env: Path) -> None:
    stack.wait_until_healthy("airflow-api-server")
    address = stack.here("http://airflow-api-server:8080")
    with closing(AirflowClient(address, "admin", read_env(env)["ADMIN_PASSWORD"])) as client:
        wait_for(lambda: client.dag_known("scheduled_pruning"), 60, "the example DAGs")
    written = Path(stack.here("/opt/airflow/login/passwords.json"))
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


def test_secrets_are_made_once_and_are_private(env: Path) -> None:
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    values = read_env(env)
    asked = set(re.findall(r"\$\{(\w+)", (DOCKER / "compose.yaml").read_text()))
    assert asked == set(values)
    assert len(set(values.values())) == len(values)
    assert min(map(len, values.values())) >= 16

    subprocess.run([DOCKER / "make_env.sh", env], check=True)

    assert read_env(env) == values


def test_nothing_listens_beyond_this_machine_and_nothing_runs_as_root() -> None:
    for name, service in services().items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["healthcheck"]["test"][0] == "CMD", name
    assert services()["airflow-database"]["user"] == "postgres"
    users = re.findall(r"^USER (.*)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert users == ["50000:50000"]


def test_every_image_is_of_one_version() -> None:
    images = [service["image"] for service in services().values()]
    dockerfile = (DOCKER / "Dockerfile").read_text()
    images += re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert all(re.fullmatch(r"[\w-]+:\d+\.\d+[.\d]*(-[\w-]+)?", image) for image in images)


def test_nobody_could_read_a_secret_on_a_command_line() -> None:
    for name, service in services().items():
        words = [*service["command"], *service["healthcheck"]["test"]]
        assert not [word for word in words if "${" in word], name


def _has_address(address: str) -> bool:
    try:
        with socket.create_server((address, 0)):
            return True
    except OSError:
        return False
