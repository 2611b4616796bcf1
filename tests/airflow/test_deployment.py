"""A submission is found again by its checkpoint, and never doubled. The processes are real; what
runs in them is ``stand_in.py`` instead of Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.timeout import timeout

from airflow_provider_continuous.compat import AirflowFailException, AirflowTaskTimeout
from airflow_provider_continuous.deploy import deployment, processes
from airflow_provider_continuous.deploy.contract import UNSEEN_MAX_S, DriverState, Handle
from airflow_provider_continuous.deploy.deployment import Deployment
from airflow_provider_continuous.deploy.local import LocalProcess
from airflow_provider_continuous.deploy.notes import FOLDER, Notes
from airflow_provider_continuous.deploy.settings import ConnectionSettings
from airflow_provider_continuous.deploy.submission import Submission
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.errors import is_final
from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from airflow_provider_continuous.operators.query import StartContinuousQueryOperator
from airflow_provider_continuous.tasks.killing import TaskIdentity
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.process import Process
from engine.checkpoint.storage.opening import open_storage
from engine.errors import ConfigError
from scripts.local_airflow.rest import wait_for


@pytest.fixture
def hook(stand_in: None) -> ContinuousQueryHook:
    return ContinuousQueryHook()


@pytest.fixture
def waiting(spec: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """A query that takes the lease once the test says so."""
    return {**spec, "conf": {"lease_gate": str(tmp_path / "gate")}}


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def notes(spec: dict[str, Any]) -> Notes:
    return Notes(open_storage(spec["checkpoint_location"]))


def dies(
    hook: ContinuousQueryHook,
    spec: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    by: str = "a_dag.a_task, a_run",
) -> SubmittedQuery:
    """Submit; the worker dies before it can note, or remember, what it has started."""
    with monkeypatch.context() as patch:
        patch.setattr(Notes, "write", lambda *_: None)
        submitted = hook.submit(hook.specification(spec), by)
    monkeypatch.setattr(processes, "child", lambda _: None)
    unknown = replace(submitted.handle, pid=None, started="")
    # The system shows the environment of a program a moment after it has started.
    wait_for(lambda: processes.find(unknown).pid, 120, "the process to have its name", 0.01)
    return submitted


def test_what_a_dead_worker_has_started_is_waited_for(
    hook: ContinuousQueryHook, waiting: dict[str, Any], gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = dies(hook, waiting, monkeypatch)
    noted = notes(waiting).last()
    assert noted is not None
    assert noted.pid is None, "nothing is known but that something would be started"

    again = hook.submit(hook.specification(waiting), "a_dag.a_task, a_run")

    assert again.handle.pid == first.handle.pid
    assert notes(waiting).last() == replace(again.handle)
    gate.touch()
    status = hook.wait_until_started(again, 120)
    assert status.pid == first.handle.pid
    found = notes(waiting).last()
    assert found is not None
    assert found.run_id == status.run_id
    assert hook.on_its_way(waiting["checkpoint_location"]) is None, "its lease tells"
    assert not again.spec_path.exists()


def test_what_has_come_to_run_just_now_is_not_submitted_again(
    hook: ContinuousQueryHook, waiting: dict[str, Any], gate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the lease and that at the last submission."""
    first = dies(hook, waiting, monkeypatch)
    gate.touch()
    location = waiting["checkpoint_location"]
    wait_for(lambda: hook.status(location).state.is_active, 120, "its run", 0.01)

    again = hook.submit(hook.specification(waiting), "another_dag.a_task, a_run")

    assert again.handle.pid == first.handle.pid
    assert not again.own
    assert notes(waiting).next_number() == 1
    assert hook.wait_until_started(again, 120).pid == first.handle.pid


def test_what_a_dead_worker_has_started_can_be_ended(
    hook: ContinuousQueryHook, waiting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = dies(hook, waiting, monkeypatch)
    found = hook.on_its_way(waiting["checkpoint_location"])
    assert found is not None

    processes._children[first.handle.pid or 0].poll()
    assert found.kill()
    processes._children[first.handle.pid or 0].wait(120)

    assert found.look().state is DriverState.ENDED
    assert hook.on_its_way(waiting["checkpoint_location"]) is None
    last = notes(waiting).last()
    assert last is not None
    assert last.ended


def test_a_worker_that_died_before_it_started_anything(
    hook: ContinuousQueryHook, spec: dict[str, Any]
) -> None:
    gone = Process.of(os.getpid()).started.rpartition("/")[0] + "/1"
    claim = Handle(
        "local", "continuous-x", 0, host=os.uname().nodename, submitter=(os.getpid(), gone)
    )
    notes(spec).take(claim)

    assert hook.on_its_way(spec["checkpoint_location"]) is None
    started = hook.submit(hook.specification(spec))

    assert started.handle.number == 1
    hook.wait_until_started(started, 120)


def test_a_worker_that_is_about_to_start_it(
    hook: ContinuousQueryHook, spec: dict[str, Any]
) -> None:
    own = Process.current()
    claim = Handle("local", "continuous-x", 0, host=own.host, submitter=(own.pid, own.started))
    notes(spec).take(claim)

    found = hook.submit(hook.specification(spec))

    assert found.handle == claim
    assert found.look().state is DriverState.STARTING


@pytest.mark.parametrize("its_clock_s", [0, -86_400, 86_400])
def test_another_machine_is_believed_for_some_minutes(
    hook: ContinuousQueryHook, spec: dict[str, Any], its_clock_s: float
) -> None:
    """Those of the storage: the other machine may have any time of day."""
    submitted_at = time.time() + its_clock_s
    claim = Handle("local", "continuous-x", 0, host="elsewhere", submitted_at=submitted_at, pid=7)
    notes(spec).take(claim)

    found = hook.submit(hook.specification(spec))

    assert found.handle == claim
    assert not found.kill(), "a process of another machine cannot be reached"
    note = Path(spec["checkpoint_location"]) / FOLDER / "0"
    long_ago = note.stat().st_mtime - UNSEEN_MAX_S - 1
    os.utime(note, (long_ago, long_ago))
    assert hook.on_its_way(spec["checkpoint_location"]) is None


def test_who_is_interrupted_leaves_the_driver_what_it_has_to_read(
    hook: ContinuousQueryHook, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ``execution_timeout`` comes before it has; a retry, or nobody, waits for it."""
    monkeypatch.setattr(processes, "launch_detached", slow_to_read(processes.launch_detached))
    submitted = hook.submit(hook.specification(spec))

    with pytest.raises(AirflowTaskTimeout), timeout(1):
        hook.wait_until_started(submitted, 120)

    assert submitted.spec_path.exists()
    assert submitted.end()
    with pytest.raises(QueryStartError):
        hook.wait_until_started(submitted, 120)
    assert not submitted.spec_path.exists()


def slow_to_read(launch: Any) -> Any:
    """Start a program that reads nothing."""
    return lambda _, *rest: launch(["sleep", "600"], *rest)


def test_a_note_ends_no_process_that_is_another_one(
    hook: ContinuousQueryHook, spec: dict[str, Any]
) -> None:
    """Whoever may write the checkpoint may write notes."""
    own = Process.current()
    forged = Handle("local", "continuous-x", 0, host=own.host, pid=own.pid, started=own.started)
    notes(spec).take(replace(forged, log="/etc/passwd"))

    found = hook.on_its_way(spec["checkpoint_location"])

    assert found is not None
    assert not found.kill()
    assert found.new_lines(ended=True) == [], "nor is any file shown"
    found.forget_secrets()


def test_a_log_in_another_folder_stays_noted(
    hook: ContinuousQueryHook, waiting: dict[str, Any], connection: Any, tmp_path: Path
) -> None:
    """The connection says another log folder since."""
    first = hook.submit(hook.specification(waiting))
    connection("continuous_default", "continuous", extra={"log-dir": str(tmp_path / "logs")})

    found = ContinuousQueryHook().on_its_way(waiting["checkpoint_location"])

    assert found is not None
    assert found.handle.log == ""
    assert found.end()
    last = notes(waiting).last()
    assert last is not None
    assert last.ended
    assert last.log == first.handle.log


def test_a_query_that_could_not_be_started_is_not_on_its_way(
    hook: ContinuousQueryHook, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "launch_detached", fails)

    with pytest.raises(OSError, match="no more processes"):
        hook.submit(hook.specification(spec))

    last = notes(spec).last()
    assert last is not None
    assert last.ended


def fails(*_: Any) -> Any:
    raise OSError("no more processes")


def test_a_note_has_no_secret(
    hook: ContinuousQueryHook, waiting: dict[str, Any], connection: Any, tmp_path: Path
) -> None:
    connection("a_vault", "generic", password="correct-horse")
    waiting["source"]["options"]["password"] = "correct-horse"
    hook = ContinuousQueryHook(
        environment={"TOKEN": "correct-horse"}, secrets={"WORD": "a_vault.password"}
    )

    hook.submit(hook.specification(waiting))

    folder = Path(waiting["checkpoint_location"]) / "control" / "submissions"
    assert [file.name for file in folder.iterdir()] == ["0"]
    assert "correct-horse" not in (folder / "0").read_text()


# -- the operators' ways with what is on its way --------------------------------------------------


def test_a_retry_waits_for_what_the_attempt_before_has_submitted(
    hook: ContinuousQueryHook,
    waiting: dict[str, Any],
    gate: Path,
    monkeypatch: pytest.MonkeyPatch,
    context: Any,
) -> None:
    """Also with ``on_running="fail"``: it is this task's own."""
    first = dies(hook, waiting, monkeypatch, str(TaskIdentity.of(context["ti"])))
    task = StartContinuousQueryOperator(
        task_id="start", spec=waiting, on_running="fail", deferrable=False
    )
    submit = ContinuousQueryHook.submit

    def then_the_gate_opens(*given: Any) -> SubmittedQuery:
        found = submit(*given)
        gate.touch()
        return found

    monkeypatch.setattr(ContinuousQueryHook, "submit", then_the_gate_opens)

    started = task.execute(context)

    assert hook.status(waiting["checkpoint_location"]).pid == first.handle.pid
    assert started["run_id"] == hook.status(waiting["checkpoint_location"]).run_id


def test_what_somebody_else_has_submitted_is_no_ground_to_submit_again(
    hook: ContinuousQueryHook, waiting: dict[str, Any], context: Any
) -> None:
    hook.submit(hook.specification(waiting), "another_dag.start, a_run")
    task = StartContinuousQueryOperator(task_id="start", spec=waiting, on_running="fail")

    with pytest.raises(AirflowFailException, match=r"was submitted by another_dag\.start, a_run"):
        task.execute(context)

    assert notes(waiting).next_number() == 1


def test_what_somebody_else_has_submitted_is_replaced(
    hook: ContinuousQueryHook, waiting: dict[str, Any], gate: Path, context: Any
) -> None:
    first = hook.submit(hook.specification(waiting), "another_dag.start, a_run")
    task = StartContinuousQueryOperator(
        task_id="start", spec=waiting, on_running="replace", deferrable=False
    )
    really_wait = task._submitted

    def opens(*given: Any) -> SubmittedQuery:
        submitted = really_wait(*given)
        gate.touch()
        return submitted

    task._submitted = opens  # type: ignore[method-assign]

    started = task.execute(context)

    assert first.process.poll() is not None
    assert started["run_id"] == hook.status(waiting["checkpoint_location"]).run_id
    assert notes(waiting).next_number() == 2


def test_who_may_still_start_is_told_when_it_cannot_be_ended(
    hook: ContinuousQueryHook, spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_700_000_000.0
    monkeypatch.setattr(deployment, "time", SimpleNamespace(time=lambda: now, monotonic=counting()))
    notes(spec).take(Handle("local", "x", 0, host="elsewhere", submitted_at=now, pid=7))
    found = hook.submit(hook.specification(spec))

    with pytest.raises(QueryStartError, match="could not be ended: a retry waits for it"):
        hook.wait_until_started(found, 1)


def counting() -> Any:
    seconds = iter(range(1000))
    return lambda: float(next(seconds))


def test_the_process_is_known_by_its_name(
    hook: ContinuousQueryHook, waiting: dict[str, Any], gate: Path
) -> None:
    started = hook.submit(hook.specification(waiting))
    unknown = replace(started.handle, pid=None, started="")

    wait_for(lambda: processes.find(unknown).pid, 120, "the process to have its name", 0.01)

    assert processes.find(unknown) == started.handle
    gate.touch()
    hook.wait_until_started(started, 120)


def test_who_waits_for_somebody_elses_submission_does_not_end_it(
    hook: ContinuousQueryHook, waiting: dict[str, Any]
) -> None:
    first = hook.submit(hook.specification(waiting), "another_dag.start, a_run")
    found = hook.submit(hook.specification(waiting), "a_dag.start, a_run")

    with pytest.raises(QueryStartError, match=r"is left to another_dag\.start, a_run"):
        hook.wait_until_started(found, 0)

    assert first.process.poll() is None


@pytest.mark.parametrize("torn", ["", "{", '{"backend": "local", "label": "conti'])
def test_nothing_is_submitted_beside_a_torn_note(
    hook: ContinuousQueryHook, waiting: dict[str, Any], torn: str
) -> None:
    """Whoever has written it may have died between the start of a driver and its note."""
    first = hook.submit(hook.specification(waiting), "another_dag.a_task, a_run")
    note = Path(waiting["checkpoint_location"]) / FOLDER / "0"
    note.write_text(torn)

    with pytest.raises(QueryStartError, match=f"{FOLDER}/0 .*cannot be read.*[Dd]elete") as told:
        hook.submit(hook.specification(waiting), "a_dag.a_task, a_run")

    assert not is_final(told.value), "a retry comes"
    with pytest.raises(QueryStartError, match="cannot be read"):
        hook.on_its_way(waiting["checkpoint_location"])
    assert [each.name for each in note.parent.iterdir()] == ["0"]
    assert first.process.poll() is None


def test_a_torn_note_is_not_waited_for_forever(
    hook: ContinuousQueryHook, waiting: dict[str, Any]
) -> None:
    hook.submit(hook.specification(waiting), "another_dag.a_task, a_run").end()
    note = Path(waiting["checkpoint_location"]) / FOLDER / "0"
    note.write_text("{")
    long_ago = note.stat().st_mtime - UNSEEN_MAX_S - 1
    os.utime(note, (long_ago, long_ago))

    assert hook.on_its_way(waiting["checkpoint_location"]) is None
    assert hook.submit(hook.specification(waiting), "a_dag.a_task, a_run").handle.number == 1


def test_a_note_that_is_not_there_for_a_moment_is_one(
    hook: ContinuousQueryHook, waiting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storage that replaces in two steps; at the next look it is whole."""
    hook.submit(hook.specification(waiting), "another_dag.a_task, a_run")
    read, away = Notes.read, [True]

    def reads(notes: Notes, number: int) -> Handle | None:
        return None if away and away.pop() else read(notes, number)

    monkeypatch.setattr(Notes, "read", reads)
    with pytest.raises(QueryStartError, match="cannot be read"):
        hook.submit(hook.specification(waiting), "a_dag.a_task, a_run")

    notes = Path(waiting["checkpoint_location"]) / FOLDER
    assert [each.name for each in notes.iterdir()] == ["0"]
    assert hook.on_its_way(waiting["checkpoint_location"]) is not None


@contextmanager
def as_another_user(tmp_path: Path) -> Iterator[None]:
    """This process may enter no folder of the one that has submitted: tasks may have users of their
    own (``run_as_user``), and a query's logs are those of its starter alone."""
    (tmp_path / "logs").chmod(0)
    user = os.geteuid()
    if user == 0:  # whom no mode stops
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        (tmp_path / "logs").chmod(0o700)


@pytest.fixture
def another_user(tmp_path: Path) -> Iterator[None]:
    with as_another_user(tmp_path):
        yield


def submission_of_another(tmp_path: Path, backend: str) -> SubmittedQuery:
    log = str(tmp_path / "logs" / "numbers.log")
    (tmp_path / "logs").mkdir()
    handle = Handle(backend, "continuous-abc", 3, log=log, host=os.uname().nodename)
    return SubmittedQuery("a-checkpoint", handle, LocalProcess(backend), lambda _: None)


@pytest.mark.usefixtures("stand_in")
def test_another_user_s_folder_of_logs_is_named(tmp_path: Path, spec: dict[str, Any]) -> None:
    (tmp_path / "logs").mkdir()
    folder = tmp_path / "logs" / "theirs"
    submission = Submission(spec, folder)

    with as_another_user(tmp_path), pytest.raises(ConfigError, match=r"theirs .*another user"):
        submission.write_specification()


@pytest.mark.parametrize("backend", ["local", "client"])
def test_files_of_another_user_are_theirs(
    tmp_path: Path, request: pytest.FixtureRequest, backend: str
) -> None:
    submitted = submission_of_another(tmp_path, backend)
    request.getfixturevalue("another_user")

    assert submitted.has_read_its_files, "nobody here could delete them"
    submitted.forget_secrets()
    assert submitted.new_lines(ended=True) == []


def test_the_log_of_another_users_run(
    tmp_path: Path,
    spec: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    log = tmp_path / "logs" / "numbers.log"
    log.parent.mkdir()
    log.touch()
    checkpoint = Checkpoint(spec["checkpoint_location"])
    noted = [Handle("local", "continuous-abc", 0, log=str(log), run_id="a-run")]
    monkeypatch.setattr(deployment, "all_notes", lambda _: noted)
    found = Deployment(checkpoint.url, checkpoint, ConnectionSettings(), log.parent, None)
    assert found.log_of_run("a-run") == log
    assert found.log_of_run("another-run") is None

    request.getfixturevalue("another_user")

    assert found.log_of_run("a-run") is None
