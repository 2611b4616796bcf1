"""ContinuousQueryHook: connections, specifications, processes.

The processes are real; what runs in them is ``stand_in.py`` instead of Spark.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.deploy import submission
from airflow_provider_continuous.deploy.submitted import QueryStartError, SubmittedQuery
from airflow_provider_continuous.hooks.query import ConnectionSettings, ContinuousQueryHook
from engine.checkpoint.query_state import QueryState
from engine.errors import ConfigError
from tests.airflow.live_checkpoint import LiveCheckpoint


def connection(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(content))


# -- connections ----------------------------------------------------------------------------------


def test_the_default_connection_need_not_exist() -> None:
    assert ContinuousQueryHook().get_conn() == ConnectionSettings()


def test_another_connection_must_exist() -> None:
    with pytest.raises(ConfigError, match="no connection 'produktion'"):
        ContinuousQueryHook("produktion").get_conn()
    assert ContinuousQueryHook("produktion").test_connection()[0] is False


@pytest.mark.parametrize("conf", [{"spark.master": "local[2]"}, '{"spark.master": "local[2]"}'])
def test_what_a_connection_says(monkeypatch: pytest.MonkeyPatch, conf: Any) -> None:
    extra = {"checkpoint-root": "s3://bucket/c", "log-dir": "/logs", "conf": conf}
    connection(monkeypatch, "ours", conn_type="continuous", extra=extra)

    hook = ContinuousQueryHook("ours")

    assert hook.get_conn() == ConnectionSettings(
        "local", "s3://bucket/c", "/logs", {"spark.master": "local[2]"}
    )
    assert hook.test_connection()[0] is True


def test_the_button_tells_that_no_query_could_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a start does, where the extra ``[engine]`` is not installed."""
    monkeypatch.setitem(sys.modules, "pyspark", None)

    done, message = ContinuousQueryHook().test_connection()

    assert not done
    assert "needs pyspark, which is not installed here" in message


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"conn_type": "spark"}, "type 'spark'"),
        ({"conn_type": "continuous", "extra": {"deploy-mode": "moon"}}, "deploy mode 'moon'"),
        ({"conn_type": "continuous", "extra": {"conf": "{"}}, "no JSON object"),
        ({"conn_type": "continuous", "extra": {"spark_submit": "{"}}, "no JSON object"),
        ({"conn_type": "continuous", "extra": {"conf": "[]"}}, "no JSON object"),
        ({"conn_type": "continuous", "extra": "{'deploy-mode': 'local'}"}, "is no JSON object"),
        ({"conn_type": "continuous", "extra": "[]"}, "extra that is no JSON object"),
        (
            {"conn_type": "continuous", "extra": {"deploy_mode": "spark-submit"}},
            "(?s)the field 'deploy_mode', .* Did you mean deploy-mode",
        ),
        (
            {"conn_type": "continuous", "extra": {"spark-submit": {"num_executors": 2}}},
            "(?s)the field 'spark-submit', .* Did you mean spark_submit",
        ),
        ({"conn_type": "continuous", "extra": {"colour": "red"}}, "(?s)'colour', .* It has deploy"),
    ],
)
def test_connections_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, content: dict[str, Any], problem: str
) -> None:
    connection(monkeypatch, "ours", **content)

    with pytest.raises(ConfigError, match=problem):
        ContinuousQueryHook("ours").get_conn()
    assert ContinuousQueryHook("ours").test_connection()[0] is False


def test_what_a_form_leaves_empty_is_no_field(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"secrets": "", "colour": None, "log-dir": "", "environment": {}}
    connection(monkeypatch, "ours", conn_type="continuous", extra=extra)
    assert ContinuousQueryHook("ours").get_conn() == ConnectionSettings()


# -- specifications -------------------------------------------------------------------------------


def test_a_specification_gets_what_the_connection_says(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"checkpoint-root": "/data/", "conf": {"a": "connection", "b": "connection"}}
    connection(monkeypatch, "continuous_default", conn_type="continuous", extra=extra)
    del spec["checkpoint_location"]

    document = ContinuousQueryHook().specification({**spec, "conf": {"a": "query"}}, name="orders")

    assert document["checkpoint_location"] == "/data/orders"
    assert document["conf"] == {"a": "query", "b": "connection"}


def test_what_a_connection_says_gives_way(
    spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"checkpoint-root": "/data"}
    connection(monkeypatch, "continuous_default", conn_type="continuous", extra=extra)

    document = ContinuousQueryHook().specification(spec, checkpoint_location="/mine", name=None)

    assert document["checkpoint_location"] == "/mine"
    assert document["name"] == spec["name"]


def test_a_specification_in_a_file(spec: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "query.yaml"
    file.write_text(json.dumps({**spec, "python_path": ["lib"]}))
    (tmp_path / "lib").mkdir()

    document = ContinuousQueryHook().specification(file)

    assert document["source"] == spec["source"]
    assert document["python_path"] == [str(tmp_path / "lib")]


def test_a_wrong_specification_is_told_as_a_whole(spec: dict[str, Any]) -> None:
    spec["source"].pop("format")

    with pytest.raises(ConfigError, match=r"(?s)2 problems.*colour.*source.format"):
        ContinuousQueryHook().specification({**spec, "colour": "blue"})


def test_a_specification_without_a_checkpoint(spec: dict[str, Any]) -> None:
    del spec["checkpoint_location"]

    with pytest.raises(ConfigError, match="checkpoint_location is empty"):
        ContinuousQueryHook().specification(spec)


# -- processes ------------------------------------------------------------------------------------


@pytest.fixture
def hook(stand_in: None) -> ContinuousQueryHook:
    return ContinuousQueryHook()


@pytest.fixture
def running(
    hook: ContinuousQueryHook, spec: dict[str, Any]
) -> Iterator[tuple[SubmittedQuery, ContinuousQueryHook]]:
    submitted = hook.submit(hook.specification(spec))
    try:
        hook.wait_until_started(submitted, 120)
        yield submitted, hook
    finally:
        submitted.process.terminate()
        submitted.process.wait()


def test_a_query_runs_on_its_own(
    running: tuple[SubmittedQuery, ContinuousQueryHook], monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted, hook = running
    location = submitted.checkpoint_location

    status = hook.find(location)

    assert status is not None
    assert status.pid == submitted.process.pid
    assert os.getsid(submitted.process.pid) == submitted.process.pid
    log = submitted.log_path
    assert log.parent == Path(location + ".logs")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "session True standard input True" in log.read_text()


def test_its_environment_has_nothing_of_airflow(
    monkeypatch: pytest.MonkeyPatch, hook: ContinuousQueryHook, spec: dict[str, Any]
) -> None:
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "hush")
    monkeypatch.setenv("AIRFLOW_CONN_BANK", "hush")
    monkeypatch.setenv("ORDERS_TOKEN", "for the query")
    submitted = hook.submit(hook.specification(spec))
    hook.wait_until_started(submitted, 120)
    submitted.process.terminate()
    submitted.process.wait()

    log = submitted.log_path.read_text()

    assert "'ORDERS_TOKEN'" in log
    assert "AIRFLOW__" not in log
    assert "AIRFLOW_CONN" not in log


def test_its_environment_has_what_connections_say(
    monkeypatch: pytest.MonkeyPatch, stand_in: None, spec: dict[str, Any]
) -> None:
    extra = {"environment": {"REGION": "eu"}, "environment-from": {"PLACE": "a_bank.extra.branch"}}
    connection(monkeypatch, "ours", conn_type="continuous", extra=extra)
    extra = {"branch": "under the stairs"}
    connection(monkeypatch, "a_bank", conn_type="generic", password="hush-hush", extra=extra)
    spec["source"]["options"]["key"] = "${BANK_KEY}"
    hook = ContinuousQueryHook("ours", secrets={"BANK_KEY": "a_bank.password"})

    assert hook.settings.variables() == {
        "REGION": "eu",
        "BANK_KEY": "hush-hush",
        "PLACE": "under the stairs",
    }
    submitted = hook.submit(hook.specification(spec))
    hook.wait_until_started(submitted, 120)
    submitted.process.terminate()
    submitted.process.wait()
    for name in ("REGION", "BANK_KEY", "PLACE"):
        assert f"'{name}'" in submitted.log_path.read_text()


def test_a_task_s_variable_goes_over_the_connection_s(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"environment": {"A": "plain"}, "environment-from": {"B": "a_bank.password"}}
    connection(monkeypatch, "ours", conn_type="continuous", extra=extra)
    connection(monkeypatch, "a_bank", conn_type="generic", password="hush-hush")
    own = ContinuousQueryHook("ours", environment={"B": "own"}, secrets={"A": "a_bank.password"})
    assert own.settings.variables() == {"A": "hush-hush", "B": "own"}
    twice = ContinuousQueryHook("ours", environment={"A": "x"}, secrets={"A": "a_bank.password"})
    with pytest.raises(ConfigError, match="A is in environment and in secrets"):
        twice.settings.variables()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {"secrets": {"KEY": "nowhere.password"}},
            "connection 'nowhere', which the secret KEY",
        ),
        ({"secrets": {"KEY": "a_bank.pin"}}, r"has login, password, .* extra\.KEY"),
        ({"secrets": {"KEY": "a_bank.password"}}, "'a_bank' has no password"),
        ({"environment": {"NO=NAME": "x"}}, "no name of an environment variable"),
    ],
)
def test_variables_that_cannot_be_set(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], given: dict[str, Any], problem: str
) -> None:
    connection(monkeypatch, "a_bank", conn_type="generic")

    with pytest.raises(ConfigError, match=problem):
        ContinuousQueryHook(**given).specification(spec)


def test_a_field_that_airflows_form_would_hide_is_refused(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any]
) -> None:
    extra = {"secrets": {"KEY": "a_bank.password"}}
    connection(monkeypatch, "continuous_default", conn_type="continuous", extra=extra)

    with pytest.raises(ConfigError, match="It is called environment-from now"):
        ContinuousQueryHook().specification(spec)


def test_its_first_lines_are_in_the_log_of_the_task(
    hook: ContinuousQueryHook, spec: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    submitted = hook.submit(hook.specification({**spec, "conf": {"stand_in": "die"}}))

    with pytest.raises(QueryStartError):
        hook.wait_until_started(submitted, 120)

    assert "out of memory" in "".join(capfd.readouterr())


def test_the_specification_is_gone_once_it_is_read(
    running: tuple[SubmittedQuery, ContinuousQueryHook],
) -> None:
    submitted, _ = running

    assert not submitted.spec_path.exists()
    command = Path(f"/proc/{submitted.process.pid}/cmdline").read_text()
    assert "checkpoint" not in Path(command.split("\0")[-2]).name


@pytest.mark.parametrize("ask", ["drain", "stop"])
def test_asking_a_query_to_end(
    running: tuple[SubmittedQuery, ContinuousQueryHook], ask: str
) -> None:
    submitted, hook = running
    location = submitted.checkpoint_location

    getattr(hook, ask)(location, by="a test")

    submitted.process.wait(120)
    assert hook.status(location).state is QueryState.STOPPED
    assert hook.find(location) is None


def test_a_second_start_has_another_run(
    running: tuple[SubmittedQuery, ContinuousQueryHook], spec: dict[str, Any]
) -> None:
    first, hook = running
    first_run = hook.status(first.checkpoint_location).run_id
    first.process.terminate()
    first.process.wait()

    second = hook.submit(hook.specification(spec))
    status = hook.wait_until_started(second, 120)
    second.process.terminate()
    second.process.wait()

    assert second.handle.previous_run_id == first_run
    assert status.run_id != first_run


def test_two_at_once(
    running: tuple[SubmittedQuery, ContinuousQueryHook], spec: dict[str, Any]
) -> None:
    _, hook = running

    second = hook.submit(hook.specification(spec))

    with pytest.raises(QueryStartError, match=r"(?s)exit code 1.*is held by run"):
        hook.wait_until_started(second, 120)


def test_a_process_that_dies_early(hook: ContinuousQueryHook, spec: dict[str, Any]) -> None:
    submitted = hook.submit(hook.specification({**spec, "conf": {"stand_in": "die"}}))

    with pytest.raises(QueryStartError, match=r"(?s)ended with exit code 1.*out of memory"):
        hook.wait_until_started(submitted, 120)

    assert not submitted.spec_path.exists()
    assert QueryStartError.retryable


def test_a_machine_that_cannot_run_it(hook: ContinuousQueryHook, spec: dict[str, Any]) -> None:
    submitted = hook.submit(hook.specification({**spec, "conf": {"stand_in": "wrong"}}))

    with pytest.raises(ConfigError, match=r"(?s)ended with exit code 2.*no Java found"):
        hook.wait_until_started(submitted, 120)


def test_a_process_that_hangs(hook: ContinuousQueryHook, spec: dict[str, Any]) -> None:
    submitted = hook.submit(hook.specification({**spec, "conf": {"stand_in": "hang"}}))

    with pytest.raises(QueryStartError, match=r"hung for 1 s"):
        hook.wait_until_started(submitted, 1)

    assert submitted.process.returncode is not None


def test_logs_of_a_remote_checkpoint_lie_with_airflows_own() -> None:
    assert submission.log_dir_of(ConnectionSettings(), "s3://bucket/c").name == "continuous"
    assert submission.log_dir_of(ConnectionSettings(), "file:///data/c/") == Path("/data/c.logs")


def test_asking_where_nothing_is(hook: ContinuousQueryHook, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no checkpoint at"):
        hook.drain(str(tmp_path / "none"), by="a test")

    assert list(tmp_path.iterdir()) == []


def test_a_lost_query_is_not_found(live: LiveCheckpoint, hook: ContinuousQueryHook) -> None:
    live.hold()
    assert hook.find(live.location) is not None
    live.lose()

    assert hook.find(live.location) is None
    assert hook.status(live.location).state is QueryState.LOST
