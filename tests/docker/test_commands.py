"""Every command and every health check of the containers, run without Docker."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from scripts.local_airflow.rest import AirflowClient, wait_for
from tests.docker.without_docker import DOCKER, Stack, compose, is_database, runs_here, services
from tests.servers import postgresql
from tests.servers.postgresql import DatabaseOfCommand

SHOWN_S = 900.0
"""Three Java machines start one after another, beside all services."""
SOON_S = 300.0
DATABASES = [name for name, each in services().items() if is_database(each)]
WORKERS = [
    name
    for name, each in services().items()
    if "org.apache.spark.deploy.worker.Worker" in each.get("command", [])
]
OURS = [name for name, each in services().items() if runs_here(each) and name not in DATABASES]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of secrets, as docker/up.sh makes it."""
    path = tmp_path_factory.mktemp("docker") / "secrets"
    subprocess.run([DOCKER / "make_secrets.sh", path], check=True)
    return path


@pytest.fixture(scope="module")
def stack(secrets: Path) -> Iterator[Stack]:
    """All services."""
    if not _has_address("127.1.2.3"):
        pytest.skip("this machine has one loopback address, and each service needs its own")
    root = Path(tempfile.mkdtemp(prefix="compose-"))
    databases: list[DatabaseOfCommand] = []
    # Nobody changes the DAGs.
    changes = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600"}
    reason = postgresql.missing()
    if reason:
        print(f"On SQLite instead of PostgreSQL; {reason}", file=sys.__stderr__)
        changes["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{root}/airflow.db"

    def start_database(
        command: list[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        password = Path(environment["POSTGRES_PASSWORD_FILE"]).read_text()
        databases.append(DatabaseOfCommand({**environment, "POSTGRES_PASSWORD": password}))
        return databases[-1].start(command)

    stack = Stack(root, secrets, changes, None if reason else start_database)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
        for database in databases:
            database.remove()
        shutil.rmtree(root)


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.parametrize("service", OURS)
def test_a_service_runs_and_its_health_check_says_so(stack: Stack, service: str) -> None:
    stack.wait_until_healthy(service)
    ended = stack.running[service].poll()
    assert ended is None or service == "airflow-init"


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.parametrize("service", DATABASES)
def test_a_database_runs_and_its_health_check_says_so(stack: Stack, service: str) -> None:
    if postgresql.missing():
        pytest.skip(f"no PostgreSQL here, Airflow runs on SQLite; {postgresql.missing()}")
    stack.wait_until_healthy(service)


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.parametrize("service", ["airflow-scheduler", "spark-worker-2"])
def test_a_health_check_notices_a_service_that_is_gone(stack: Stack, service: str) -> None:
    """Its command, with an address where nothing runs."""
    here = dict(stack.hosts)
    words = stack.services[service]["healthcheck"]["test"][1:]
    stack.hosts[service] = "127.250.250.250"
    try:
        command = [stack.here(word, service) for word in words]
    finally:
        stack.hosts.update(here)
    checked = subprocess.run(command, env=stack.environment(service), capture_output=True)
    assert checked.returncode == 1, checked.stderr


@pytest.fixture
def airflow(stack: Stack, secrets: Path) -> Iterator[AirflowClient]:
    """Logged in."""
    stack.wait_until_healthy("airflow-api-server")
    address = stack.here("http://airflow-api-server:8080", "airflow-api-server")
    password = (secrets / "admin_password").read_text()
    with closing(AirflowClient(address, "admin", password)) as client:
        yield client


@pytest.mark.airflow
@pytest.mark.spark
def test_the_login_of_the_secrets_opens_it(stack: Stack, airflow: AirflowClient) -> None:
    wait_for(lambda: airflow.dag_known("scheduled_pruning"), SOON_S, "the example DAGs")
    written = stack.place("/opt/airflow/login/passwords.json", "airflow-api-server")
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


@pytest.mark.airflow
@pytest.mark.spark
def test_an_example_runs_on_the_cluster_and_the_page_sees_it(
    stack: Stack, airflow: AirflowClient
) -> None:
    """Its driver is in the service of drivers, its tasks are with the workers, and nothing is with
    Airflow's scheduler: each sees the files of others by the volumes that it mounts alone."""
    wait_for(lambda: airflow.dag_known("always_on"), SOON_S, "the example DAG")
    airflow.pause("always_on", paused=False)  # it is always on: that starts it
    checkpoint = "/data/demo/checkpoints/always-on"

    def shown() -> bool:
        stack.check()
        for run in airflow.runs("always_on", "failed"):
            raise AssertionError(airflow.failures("always_on", run))
        return any(
            each["epoch"] >= 2 for each in airflow.page("/continuous/queries.json")["queries"]
        )

    wait_for(shown, SHOWN_S, f"epochs on the page; logs in {stack.logs}")

    drivers = {name for name in stack.services if runs(stack, name, "application.py")}
    executors = {name for name in stack.services if runs(stack, name, "GrainedExecutorBackend")}
    assert drivers == {"spark-drivers"}
    assert executors
    assert executors <= {"spark-worker-1", "spark-worker-2"}

    airflow.pause("always_on")
    Checkpoint(str(stack.place(checkpoint, "spark-drivers"))).requests.ask("drain", by="a test")
    wait_for(lambda: not runs(stack, "spark-drivers", "application.py"), SOON_S, "the driver's end")


def runs(stack: Stack, service: str, word: str) -> bool:
    """Whether a process that the service has started has the word in its command."""
    found = stack.running.get(service)
    if found is None or found.poll() is not None:
        return False
    family = psutil.Process(found.pid).children(recursive=True)
    return any(word in " ".join(_words(process)) for process in family)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.airflow
@pytest.mark.spark
def test_who_does_not_know_sparks_secret_can_do_nothing(stack: Stack) -> None:
    """To end a driver that there is none of: the master says so to those who know it."""
    known = stack.environment("airflow-scheduler")
    stranger = {name: value for name, value in known.items() if name != "SPARK_CONF_DIR"}
    master = stack.here("spark://spark-master:7077", "airflow-scheduler")
    client = ["--master", "local", "--class", "org.apache.spark.deploy.Client", "spark-internal"]
    command = ["spark-submit", *client, "kill", master, "driver-none"]
    told, refused = (
        subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        for environment in (known, stranger)
    )
    assert "driver-none has already finished or does not exist" in told.stdout + told.stderr
    assert "does not exist" not in refused.stdout + refused.stderr
    assert refused.returncode != 0


def test_secrets_are_made_once_and_are_private(secrets: Path) -> None:
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    values = {path.name: path.read_text() for path in secrets.iterdir()}
    assert compose()["secrets"] == {name: {"file": f"./secrets/{name}"} for name in values}
    assert len(set(values.values())) == len(values)
    assert min(len(value) for name, value in values.items() if name != "s3_user") >= 16
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o444 for path in secrets.iterdir())

    subprocess.run([DOCKER / "make_secrets.sh", secrets], check=True)

    assert {path.name: path.read_text() for path in secrets.iterdir()} == values


@pytest.mark.parametrize("closed", [False, True])
def test_dags_that_containers_could_not_read_are_told(
    secrets: Path, tmp_path: Path, closed: bool
) -> None:
    """A checkout by somebody whose umask is 077: Airflow would show no DAG, and say nothing."""
    shutil.copytree(secrets, tmp_path / "docker" / "secrets")
    shutil.copy(DOCKER / "up.sh", tmp_path / "docker")
    shutil.copy(DOCKER / "make_secrets.sh", tmp_path / "docker")
    dag = tmp_path / "dags" / "flights" / "query.py"
    dag.parent.mkdir(parents=True)
    dag.touch()
    for path, mode in [(dag, 0o600 if closed else 0o644), (dag.parent, 0o755)]:
        path.chmod(mode)
    (tmp_path / "docker.log").touch()
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/docker.log\n')
    docker.chmod(0o755)

    ran = subprocess.run(
        [tmp_path / "docker" / "up.sh"],
        env={"PATH": f"{docker.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )

    assert ran.returncode == int(closed), ran.stderr
    assert ("flights/query.py: chmod -R o+rX" in ran.stderr) is closed
    assert ("up --detach --wait" in (tmp_path / "docker.log").read_text()) is not closed


def test_a_service_gets_the_secrets_that_it_reads_and_no_others() -> None:
    for name, service in services().items():
        texts = [*service.get("command", []), *service.get("environment", {}).values()]
        read = set(re.findall(r"/run/secrets/([\w.-]+)", " ".join(map(str, texts))))
        if "/run/secrets" in texts:  # Spark's folder of settings
            read.add("spark-defaults.conf")
        if name == "airflow-init":  # it has Airflow's environment, and starts no Spark
            read.discard("spark-defaults.conf")
        assert set(service.get("secrets", [])) == read, name


def test_the_connections_lead_to_services_of_this_file(secrets: Path) -> None:
    connections = json.loads((secrets / "connections.json").read_text())
    addresses = [connections["spark_default"]["host"].partition("://")[2]]
    addresses += [connections["kafka_default"]["extra"]["bootstrap.servers"]]
    addresses += [connections["postgres_default"]["host"]]
    addresses += [connections["s3_default"]["extra"]["endpoint_url"].partition("://")[2]]
    assert {each.partition(":")[0] for each in addresses} <= set(services())
    assert len(addresses) == len(connections)


@pytest.mark.parametrize("service", WORKERS)
def test_a_query_that_is_a_function_is_found_where_it_runs(
    secrets: Path, tmp_path: Path, service: str
) -> None:
    """A module beside the DAGs, which Airflow finds by itself."""
    stack = Stack(tmp_path, secrets, {}, None)

    ran = subprocess.run(
        [sys.executable, "-c", "import flights.query; print(flights.query.__file__)"],
        env=stack.environment(service),
        cwd=stack.place("/opt/airflow", service),
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stderr
    assert Path(ran.stdout.strip()) == stack.place("/opt/airflow/dags/flights/query.py", service)


def test_the_buttons_of_the_page_can_write_what_the_page_shows() -> None:
    data = [each for each in services()["airflow-api-server"]["volumes"] if "/data" in each]

    assert data == ["data:/data"]


def test_every_service_has_its_limits() -> None:
    for name, service in services().items():
        assert {"mem_limit", "cpus", "pids_limit"} <= set(service), name


def test_nothing_listens_beyond_this_machine_and_nothing_runs_as_root() -> None:
    for name, service in services().items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["healthcheck"]["test"][0] == "CMD", name
    for name in DATABASES:
        assert services()[name]["user"] == "postgres"
    users = re.findall(r"^USER (.*)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert users == ["50000:50000"]


def test_every_image_is_of_one_version() -> None:
    images = [service["image"] for service in services().values()]
    dockerfile = (DOCKER / "Dockerfile").read_text()
    images += re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    version = r"\d+\.\d+[.\d]*(-[\w-]+)?|RELEASE\.[\dTZ-]+"
    assert [image for image in images if not re.fullmatch(rf"[\w/-]+:({version})", image)] == []


def test_nobody_could_read_a_secret_on_a_command_line() -> None:
    for name, service in services().items():
        words = [*service.get("command", []), *service["healthcheck"]["test"]]
        assert not [word for word in words if "${" in word], name
    assert "${" not in (DOCKER / "compose.yaml").read_text(), "secrets are files"


def _has_address(address: str) -> bool:
    try:
        with socket.create_server((address, 0)):
            return True
    except OSError:
        return False
