"""What ``airflow`` itself makes of the provider: the real command line, in a home of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_continuous.compat import RELEASE
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_state import QueryState
from tests.airflow.installed import python_path
from tests.airflow.live_checkpoint import LiveCheckpoint

with_commands = pytest.mark.skipif(
    RELEASE < (3, 2), reason="commands of providers came with Airflow 3.2"
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a new Airflow with a database and a folder of checkpoints."""
    home = tmp_path_factory.mktemp("airflow-home")
    made = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CONTINUOUS__CHECKPOINT_ROOTS": str(home / "checkpoints"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "PYTHONPATH": python_path(home / "installed"),
    }
    _airflow(made, "db", "migrate")
    return made


@pytest.fixture(scope="module")
def orders(environment: dict[str, str]) -> LiveCheckpoint:
    """A query that runs below the configured root."""
    query = LiveCheckpoint(Path(environment["AIRFLOW_HOME"]) / "checkpoints" / "orders")
    query.hold()
    query.commit(0, 1)
    return query


def test_airflow_lists_what_the_provider_has(environment: dict[str, str]) -> None:
    expected = {
        "hooks": "ContinuousQueryHook",
        "links": "airflow_provider_continuous.links.query.SparkUiLink",
        "triggers": "airflow_provider_continuous.triggers.epoch",
        "notifications": "airflow_provider_continuous.notifications.query.ContinuousQueryNotifier",
        "configs": "continuous",
    }
    commands = [["providers", kind, "--output", "json"] for kind in expected]
    commands.append(["plugins", "--output", "json"])
    commands.append(["config", "get-value", "continuous", "page_refresh"])

    *provided, plugins, refresh = _airflow_in_one_process(environment, commands)

    for (kind, name), listed in zip(expected.items(), provided, strict=True):
        assert name in listed, kind
    (plugin,) = [plugin for plugin in json.loads(plugins) if plugin["name"] == "continuous"]
    assert "/continuous" in str(plugin["fastapi_apps"])
    assert "airflow_provider_continuous.listeners.query" in str(plugin["listeners"])
    assert refresh.strip() == "5", "the configuration has its defaults"


@with_commands
def test_the_list_shows_the_query(environment: dict[str, str], orders: LiveCheckpoint) -> None:
    text = _airflow(environment, "continuous", "list").stdout
    listing = _json(_airflow(environment, "continuous", "list", "--json").stdout)

    assert "orders" in text
    assert "RUNNING" in text
    (query,) = listing["queries"]
    assert (query["name"], query["epoch"]) == ("orders", 1)
    assert query["checkpoint_location"] == orders.location


@with_commands
def test_the_engines_commands_work_below_airflow(
    environment: dict[str, str], orders: LiveCheckpoint
) -> None:
    shown = _airflow(environment, "continuous", "status", orders.location, "--json").stdout
    epochs = _airflow(environment, "continuous", "epochs", orders.location, "--json").stdout

    assert _json(shown)["state"] == QueryState.RUNNING.value
    assert [epoch["epoch"] for epoch in _json(epochs)["epochs"]] == [0, 1]


@with_commands
def test_a_drain_is_asked_for(environment: dict[str, str], orders: LiveCheckpoint) -> None:
    done = _airflow(environment, "continuous", "drain", orders.location, "--timeout", "0", code=1)

    assert "asked to drain" in done.stdout
    assert Checkpoint(orders.location).requests.pending("run-1") == "drain"


@with_commands
def test_a_location_without_a_checkpoint_is_wrong_use(environment: dict[str, str]) -> None:
    done = _airflow(environment, "continuous", "status", "/nowhere/at/all", code=2)

    assert "There is no checkpoint at /nowhere/at/all" in done.stderr


def _json(printed: str) -> Any:
    """Airflow may have logged something of its own to stdout before."""
    return json.loads(printed.splitlines()[-1])


_COMMANDS = """
import contextlib, io, json, sys
from airflow.cli.cli_parser import get_parser

said = []
for command in json.loads(sys.argv[1]):
    arguments = get_parser().parse_args(command)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        arguments.func(arguments)
    said.append(output.getvalue())
print(json.dumps(said))
"""


def _airflow_in_one_process(environment: dict[str, str], commands: list[list[str]]) -> list[str]:
    """Run several commands as ``airflow`` does; importing it takes longer than any of them."""
    done = subprocess.run(
        [sys.executable, "-c", _COMMANDS, json.dumps(commands)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said: list[str] = json.loads(done.stdout.splitlines()[-1])
    return said


def _airflow(
    environment: dict[str, str], *arguments: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "airflow", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr[-3000:]
    return done


def _status_of(query: LiveCheckpoint, stdout: int) -> subprocess.CompletedProcess[str]:
    code = (
        "import sys; from argparse import Namespace; "
        "from airflow_provider_continuous.cli.commands import status; "
        "status(Namespace(checkpoint=sys.argv[1], json=False))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, query.location],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )


def test_who_reads_may_leave(live: LiveCheckpoint) -> None:
    unread, output = os.pipe()
    os.close(unread)
    ended = _status_of(live, output)
    os.close(output)
    assert (ended.returncode, "Traceback" in ended.stderr, "Broken pipe" in ended.stderr) == (
        141, False, False
    )  # fmt: skip
