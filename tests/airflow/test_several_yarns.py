"""YARN with several ResourceManagers, whose addresses are all named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_provider_continuous.deploy.contract import DriverState, Handle
from airflow_provider_continuous.deploy.managers.yarn import Yarn
from tests.airflow.manager_stand_in import StandIn, standing_in

APPLICATION = "application_1700000000000_0007"
APPS = "/ws/v1/cluster/apps"
HANDLE = Handle("yarn", "continuous-abc", 3, submitted_at=1_700_000_000.5)


@pytest.fixture
def server() -> Iterator[StandIn]:
    with standing_in() as server:
        yield server


@pytest.mark.parametrize("first", ["dead", "refusing", "speaking another language"])
def test_of_several_addresses_the_next_one_is_asked(server: StandIn, first: str) -> None:
    """A ResourceManager that is down sends nobody on; nor does one that has no leader to name."""
    app = f"{APPS}/{APPLICATION}"
    server.answers = {
        app: {"app": {"id": APPLICATION, "state": "RUNNING"}},
        f"{app}/state": {"state": "KILLED"},
        APPS: {"apps": {"app": [{"id": APPLICATION}]}},
    }
    with standing_in() as other:
        other.answers = dict.fromkeys(server.answers, 503 if first == "refusing" else "<html>")
        address = "http://127.0.0.1:1" if first == "dead" else other.address
        yarn = Yarn(f"{address.removeprefix('http://')}, {server.address}/")

        assert yarn.status(APPLICATION).state is DriverState.RUNNING
        assert yarn.find(HANDLE) == APPLICATION
        assert yarn.kill(APPLICATION, HANDLE)
        assert server.asked[-1] == ("PUT", f"{app}/state", {"state": "KILLED"})


@pytest.mark.parametrize(
    ("answers", "expected", "seen"),
    [
        ((503, 404), DriverState.ENDED, False),
        ((404, 503), DriverState.ENDED, False),
        ((401, 401), DriverState.UNKNOWN, False),
        ((503, 503), DriverState.UNKNOWN, True),
    ],
)
def test_what_several_addresses_do_not_say(
    server: StandIn, answers: tuple[int, int], expected: DriverState, seen: bool
) -> None:
    """Who answers at all is the active one, for the other one sends on."""
    app = f"{APPS}/{APPLICATION}"
    with standing_in() as other:
        other.answers[app], server.answers[app] = answers
        told = Yarn(f"{other.address},{server.address}").status(APPLICATION)

    assert (told.state, told.seen) == (expected, seen)
