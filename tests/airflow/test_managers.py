"""What the managers of clusters are asked, and what is made of their answers: stand-ins on loopback
that answer as Spark's master and YARN's ResourceManager do, and a client as Kubernetes' is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_continuous.deploy.contract import DriverState, DriverStatus, Handle
from airflow_provider_continuous.deploy.managers.contract import Manager, ManagerError, ask
from airflow_provider_continuous.deploy.managers.kubernetes import LABEL, Kubernetes
from airflow_provider_continuous.deploy.managers.standalone import StandaloneMaster
from airflow_provider_continuous.deploy.managers.yarn import Yarn
from tests.airflow.manager_stand_in import Moved, StandIn, standing_in
from tests.waiting import wait_until

DRIVER = "driver-20260101000000-0001"
APPLICATION = "application_1700000000000_0007"
HANDLE = Handle("yarn", "continuous-abc", 3, submitted_at=1_700_000_000.5)
NAME = "continuous-abc-3-6553f100"
POD = f"{NAME}-driver"


@pytest.fixture
def server() -> Iterator[StandIn]:
    with standing_in() as server:
        yield server


def state(manager: Manager, driver_id: str) -> DriverState:
    return manager.status(driver_id).state


# -- standalone -----------------------------------------------------------------------------------


def master(*pages: str) -> StandaloneMaster:
    return StandaloneMaster("spark://a:7077,b:7077", ",".join(pages), lambda: "", dict)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("SUBMITTED", DriverState.STARTING),
        ("RELAUNCHING", DriverState.STARTING),
        ("RUNNING", DriverState.RUNNING),
        ("FINISHED", DriverState.ENDED),
        ("FAILED", DriverState.ENDED),
        ("KILLED", DriverState.ENDED),
        ("ERROR", DriverState.ENDED),
        ("UNKNOWN", DriverState.UNKNOWN),
    ],
)
def test_what_the_master_says(server: StandIn, told: str, expected: DriverState) -> None:
    other = {"id": "driver-20260101000000-0002", "state": "RUNNING"}
    drivers = [other, {"id": DRIVER, "state": told}]
    server.answers["/json/"] = {"status": "ALIVE", "activedrivers": drivers}

    assert master(server.address).status(DRIVER) == DriverStatus(expected, f"{DRIVER} is {told}")


def test_a_master_that_does_not_know_the_driver(server: StandIn) -> None:
    server.answers["/json/"] = {"status": "ALIVE", "activedrivers": [], "completeddrivers": []}

    assert state(master(server.address), DRIVER) is DriverState.ENDED


@pytest.mark.parametrize("answer", [404, "no JSON", "[]", {"status": "STANDBY"}])
def test_only_the_active_master_counts(server: StandIn, answer: Any) -> None:
    server.answers["/standby/json/"] = answer
    server.answers["/json/"] = {"status": "ALIVE", "activedrivers": []}
    standby = f"{server.address}/standby"

    assert state(master(standby), DRIVER) is DriverState.UNKNOWN
    assert "spark_submit.master_web" in master(standby).status(DRIVER).detail
    assert state(master(standby, server.address), DRIVER) is DriverState.ENDED


def test_a_masters_page_is_on_port_8080() -> None:
    known = StandaloneMaster("spark://a:7077,b:7078", None, lambda: "", dict)

    assert known._pages == ["http://a:8080", "http://b:8080"]


@pytest.mark.parametrize(
    "output",
    [
        f"INFO ClientEndpoint: Driver successfully submitted as {DRIVER}\nState of {DRIVER} is R",
        f'{{"action": "CreateSubmissionResponse", "submissionId": "{DRIVER}"}}',
    ],
)
def test_the_drivers_id_is_in_the_output(tmp_path: Path, output: str) -> None:
    log = tmp_path / "log"
    handle = Handle("standalone", "continuous-abc", 0, log=str(log))
    assert master().find(handle) is None
    log.write_text(output)

    assert master().find(handle) == DRIVER


def test_only_a_driver_can_be_killed(tmp_path: Path) -> None:
    handle = Handle("standalone", "continuous-abc", 0, log=str(tmp_path / "log"))

    assert not master().kill("driver-1 --and more", handle)
    assert list(tmp_path.iterdir()) == []


def test_a_driver_whose_log_is_not_known_here_can_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine has submitted it, or the connection names another folder by now."""
    monkeypatch.chdir(tmp_path)
    program, told = tmp_path / "spark-submit", tmp_path / "told"
    program.write_text(f'#!/bin/sh\necho "$@" > {told}.new\nmv {told}.new {told}\n')
    program.chmod(0o700)
    asked = StandaloneMaster("spark://a:7077", None, lambda: str(program), dict)

    assert asked.kill(DRIVER, Handle("standalone", "continuous-abc", 0))

    wait_until(told.exists, "the program")
    assert told.read_text().endswith(f"kill spark://a:7077 {DRIVER}\n")
    assert sorted(tmp_path.iterdir()) == [program, told]


WORKER = "worker-20260101000000-10.0.0.7-40321"


def test_the_last_words_are_with_the_worker(server: StandIn) -> None:
    asked = []

    def page(query: dict[str, list[str]]) -> str:
        (stream,) = query.pop("logType")
        asked.append(query)
        return f"==== Bytes 0-9 of 9 of /spark/driver-1/{stream} ====\nthe end\nof {stream}\n"

    server.answers["/json/"] = {
        "status": "ALIVE",
        "completeddrivers": [{"id": DRIVER, "state": "FAILED", "worker": WORKER}],
        "workers": [{"id": WORKER, "webuiaddress": f"{server.address}/of-it/"}],
    }
    server.answers["/of-it/log/"] = page

    words = master(server.address).last_words(DRIVER, HANDLE)
    assert words.split() == ["the", "end", "of", "stderr", "the", "end", "of", "stdout"]
    assert asked == [{"driverId": [DRIVER], "byteLength": ["16384"]}] * 2


@pytest.mark.parametrize(
    "answer", [500, "Error: Log type must be one of stderr, stdout, launcher, driver"]
)
def test_no_last_words(server: StandIn, answer: Any) -> None:
    driver = {"id": DRIVER, "state": "SUBMITTED", "worker": "None"}
    told = {"status": "ALIVE", "activedrivers": [driver], "workers": []}
    server.answers["/json/"] = told
    assert master(server.address).last_words(DRIVER, HANDLE).strip() == ""
    driver["worker"] = WORKER
    told["workers"] = [{"id": WORKER, "webuiaddress": server.address}]
    server.answers["/log/"] = answer
    assert master(server.address).last_words(DRIVER, HANDLE).strip() == ""
    assert master("http://127.0.0.1:1").last_words(DRIVER, HANDLE) == ""


# -- YARN -----------------------------------------------------------------------------------------

APPS = "/ws/v1/cluster/apps"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("NEW", DriverState.STARTING),
        ("ACCEPTED", DriverState.STARTING),
        ("RUNNING", DriverState.RUNNING),
        ("FINISHED", DriverState.ENDED),
        ("KILLED", DriverState.ENDED),
        ("FAILED", DriverState.ENDED),
        ("SOMETHING", DriverState.UNKNOWN),
    ],
)
def test_what_yarn_says(server: StandIn, told: str, expected: DriverState) -> None:
    app = {"id": APPLICATION, "state": told, "finalStatus": "UNDEFINED"}
    server.answers[f"{APPS}/{APPLICATION}"] = {"app": app}

    assert state(Yarn(server.address), APPLICATION) is expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(404, DriverState.ENDED), (401, DriverState.UNKNOWN), ("<html>", DriverState.UNKNOWN)],
)
def test_what_yarn_does_not_say(server: StandIn, answer: Any, expected: DriverState) -> None:
    server.answers[f"{APPS}/{APPLICATION}"] = answer

    assert state(Yarn(server.address), APPLICATION) is expected


def test_without_an_address_yarn_is_not_asked(tmp_path: Path) -> None:
    told = Yarn(None).status(APPLICATION)

    assert told.state is DriverState.UNKNOWN
    assert "yarn_resourcemanager_webapp_address" in told.detail
    assert Yarn(None).find(HANDLE) is None
    assert not Yarn(None).kill(APPLICATION, HANDLE)


def test_an_application_is_found_by_its_tag(server: StandIn, tmp_path: Path) -> None:
    older = "application_1700000000000_0006"

    def tagged(query: dict[str, list[str]]) -> Any:
        assert query == {"applicationTags": [NAME]}
        return {"apps": {"app": [{"id": older}, {"id": APPLICATION}]}}

    server.answers[APPS] = tagged
    yarn = Yarn(server.address + "/")

    assert yarn.marks(HANDLE) == {"spark.yarn.tags": NAME}
    assert yarn.find(HANDLE) == APPLICATION
    server.answers[APPS] = {"apps": None}
    assert yarn.find(HANDLE) is None
    server.answers[APPS] = 500
    assert yarn.find(HANDLE) is None


def test_yarn_is_asked_for_the_end(server: StandIn) -> None:
    server.answers[f"{APPS}/{APPLICATION}/state"] = {"state": "KILLED"}

    assert Yarn(server.address).kill(APPLICATION, HANDLE)
    assert server.asked == [("PUT", f"{APPS}/{APPLICATION}/state", {"state": "KILLED"})]
    assert not Yarn(server.address).kill("../../other", HANDLE)
    server.answers.clear()
    assert not Yarn(server.address).kill(APPLICATION, HANDLE)


def test_of_two_yarns_the_active_one_is_asked(server: StandIn) -> None:
    """A ResourceManager that stands by sends whoever asks it to the active one."""
    app = f"{APPS}/{APPLICATION}"
    server.answers = {app: {"app": {"state": "RUNNING"}}, f"{app}/state": {"state": "KILLED"}}
    with standing_in() as standby:
        standby.answers = dict.fromkeys(server.answers, Moved(server.address))
        yarn = Yarn(standby.address)

        assert state(yarn, APPLICATION) is DriverState.RUNNING
        assert yarn.kill(APPLICATION, HANDLE)

        assert server.asked[-1] == ("PUT", f"{app}/state", {"state": "KILLED"})
        standby.answers[f"{app}/state"] = Moved(standby.address)
        assert not yarn.kill(APPLICATION, HANDLE), "in circles"


def test_an_address_without_http(server: StandIn) -> None:
    """As the Spark provider takes that of YARN."""
    host = server.address.removeprefix("http://")
    server.answers[f"{APPS}/{APPLICATION}"] = {"app": {"state": "RUNNING"}}
    server.answers["/json/"] = {"status": "ALIVE"}

    assert state(Yarn(host), APPLICATION) is DriverState.RUNNING
    assert state(master(host), DRIVER) is DriverState.ENDED


@pytest.mark.parametrize(
    "answer", [b"\x15\x03\x03\x00\x02\x02P", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
)
def test_who_does_not_speak_http_to_its_end(answer: bytes) -> None:
    """A port of HTTPS; a manager that dies while it answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answers() -> None:
            met, _ = listening.accept()
            with met:
                met.recv(4096)
                met.sendall(answer)

        thread = threading.Thread(target=answers)
        thread.start()
        told = Yarn(f"http://127.0.0.1:{listening.getsockname()[1]}").status(APPLICATION)
        thread.join()

    assert told.state is DriverState.UNKNOWN
    assert "does not answer" in told.detail


def test_the_last_words_are_with_the_node_of_the_last_attempt(server: StandIn) -> None:
    container = "container_1700000000000_0007_02_000001"
    app = {
        "state": "FAILED",
        "amContainerLogs": f"{server.address}/node/containerlogs/{container}/me",
    }
    server.answers[f"{APPS}/{APPLICATION}"] = {"app": app}
    logs = f"/ws/v1/node/containerlogs/{container}"
    for stream in ("stderr", "stdout"):
        server.answers[f"{logs}/{stream}"] = (
            f"****\nContainer: it on a-node\n====\nLogType:{stream}\nLogLength:17\nLogContents:\n"
            f"the end\nof {stream}\nEnd of LogType:{stream}.This log file is complete.\n"
        )

    words = Yarn(server.address).last_words(APPLICATION, HANDLE)
    assert words.split() == ["the", "end", "of", "stderr", "the", "end", "of", "stdout"]
    assert server.asked[-1][1] == f"{logs}/stdout?size=-16384"
    server.answers[f"{logs}/stderr"] = 404
    assert Yarn(server.address).last_words(APPLICATION, HANDLE) == ""
    app["amContainerLogs"] = "file:///etc/passwd"
    assert Yarn(server.address).last_words(APPLICATION, HANDLE) == ""
    assert Yarn(None).last_words(APPLICATION, HANDLE) == ""


def test_a_manager_that_is_not_there() -> None:
    with pytest.raises(ManagerError, match="does not answer"):
        ask("http://127.0.0.1:1/json/")
    with pytest.raises(ManagerError, match="no address"):
        ask("file:///etc/passwd")


# -- Kubernetes -----------------------------------------------------------------------------------


class NotFound(Exception):
    status = 404


class Client:
    """As ``CoreV1Api``."""

    def __init__(self, **pods: Any) -> None:
        self.pods = pods

    def read_namespaced_pod(self, name: str, namespace: str, _request_timeout: float) -> Any:
        assert namespace == "streams"
        if name not in self.pods:
            raise NotFound
        if isinstance(self.pods[name], Exception):
            raise self.pods[name]
        return self.pods[name]

    def read_namespaced_pod_log(
        self,
        name: str,
        namespace: str,
        container: str,
        tail_lines: int,
        _preload_content: bool,
        _request_timeout: float,
    ) -> Any:
        assert namespace == "streams"
        assert not _preload_content
        return SimpleNamespace(data=f"{tail_lines} lines of {container} in {name}".encode())

    def delete_namespaced_pod(self, name: str, namespace: str, _request_timeout: float) -> None:
        del self.pods[name]


def pod(phase: str, label: str | None = HANDLE.label, *containers: str) -> Any:
    labels = None if label is None else {LABEL: label}
    return SimpleNamespace(
        status=SimpleNamespace(phase=phase),
        metadata=SimpleNamespace(labels=labels),
        spec=SimpleNamespace(containers=[SimpleNamespace(name=name) for name in containers]),
    )


def test_a_pod_has_its_submissions_name() -> None:
    kubernetes = Kubernetes("streams", None)

    assert kubernetes.find(HANDLE) == POD
    assert kubernetes.marks(HANDLE) == {
        "spark.kubernetes.namespace": "streams",
        "spark.kubernetes.driver.pod.name": POD,
        "spark.kubernetes.driver.label.continuous-checkpoint": "continuous-abc",
    }


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod("Pending"), DriverState.STARTING),
        (pod("Running"), DriverState.RUNNING),
        (pod("Succeeded"), DriverState.ENDED),
        (pod("Failed"), DriverState.ENDED),
        (pod("Unknown"), DriverState.UNKNOWN),
        (OSError("no route"), DriverState.UNKNOWN),
    ],
)
def test_what_kubernetes_says(found: Any, expected: DriverState) -> None:
    kubernetes = Kubernetes("streams", Client(**{POD: found}))

    assert state(kubernetes, POD) is expected


def test_why_a_pod_has_failed() -> None:
    """An evicted one has no log."""
    evicted = pod("Failed")
    evicted.status.reason, evicted.status.message = "Evicted", "The node was low on memory."

    told = Kubernetes("streams", Client(**{POD: evicted})).status(POD)

    assert told.detail == f"pod {POD} is Failed: Evicted: The node was low on memory."


@pytest.mark.parametrize(
    ("name", "expected"),
    [("spark-kubernetes-driver", DriverState.ENDED), ("mesh", DriverState.RUNNING)],
)
def test_a_pod_runs_on_with_its_sidecar(name: str, expected: DriverState) -> None:
    ended = SimpleNamespace(reason="OOMKilled", exit_code=137)
    status = SimpleNamespace(name=name, state=SimpleNamespace(terminated=ended))
    found = pod("Running")
    found.status.container_statuses = [status, SimpleNamespace(name="other", state=None)]

    told = Kubernetes("streams", Client(**{POD: found})).status(POD)

    assert told.state is expected
    assert ("OOMKilled" in told.detail) is (expected is DriverState.ENDED)


@pytest.mark.parametrize("status", [None, SimpleNamespace(phase=None)])
def test_a_pod_that_nobody_has_looked_at_yet(status: Any) -> None:
    found = SimpleNamespace(status=status, metadata=SimpleNamespace(labels={}))

    told = Kubernetes("streams", Client(**{POD: found})).status(POD)
    assert told == DriverStatus(DriverState.STARTING, f"pod {POD} is Pending")


def test_no_pod_and_no_client() -> None:
    assert state(Kubernetes("streams", Client()), POD) is DriverState.ENDED
    assert state(Kubernetes("streams", None), "a-pod") is DriverState.UNKNOWN
    assert not Kubernetes("streams", None).kill("a-pod", HANDLE)


@pytest.mark.parametrize(
    ("label", "killed"), [(HANDLE.label, True), ("continuous-other", False), (None, False)]
)
def test_only_a_pod_of_this_checkpoint_is_deleted(label: str | None, killed: bool) -> None:
    client = Client(**{"a-pod": pod("Running", label)})

    assert Kubernetes("streams", client).kill("a-pod", HANDLE) is killed
    assert ("a-pod" in client.pods) is not killed


@pytest.mark.parametrize(
    ("containers", "whose"),
    [
        (["mesh", "spark-kubernetes-driver"], "spark-kubernetes-driver"),
        (["mine", "mesh"], "mine"),
    ],
)
def test_the_last_words_are_those_of_the_drivers_container(
    containers: list[str], whose: str
) -> None:
    kubernetes = Kubernetes("streams", Client(**{POD: pod("Failed", HANDLE.label, *containers)}))

    assert kubernetes.last_words(POD, HANDLE) == f"200 lines of {whose} in {POD}"


def test_nobody_elses_last_words_are_told() -> None:
    client = Client(other=pod("Failed", "continuous-other", "its"), early=pod("Pending"))

    for name in ("other", "early", "no-such-pod"):
        assert Kubernetes("streams", client).last_words(name, HANDLE) == ""
    assert Kubernetes("streams", None).last_words(POD, HANDLE) == ""
