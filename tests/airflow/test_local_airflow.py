"""A local Airflow that does not come up, and its keys."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import pytest

from scripts.local_airflow.ports import free_ports
from scripts.local_airflow.processes import AirflowProcesses, StandaloneError


def test_it_says_why_it_did_not_come_up(tmp_path: Path) -> None:
    environment = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "sqlite:///relative.db"}
    airflow = AirflowProcesses(tmp_path / "home", tmp_path, environment=environment)

    with pytest.raises(StandaloneError, match=r"(?s)db migrate failed.*sqlite"):
        airflow.start()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        airflow = AirflowProcesses(tmp_path, tmp_path, port=other.getsockname()[1])

        with pytest.raises(StandaloneError, match=r"Port \d+ is taken"):
            airflow.start()


def test_a_port_is_none_that_others_are_given_before_its_server_comes() -> None:
    """Nor while it is restarted: whoever connects somewhere gets one of the system's."""
    others = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if not others.exists():
        pytest.skip(f"no {others} here")
    ports = [*free_ports(20), *free_ports(20)]

    assert len(set(ports)) == 40, "nor are there two servers at one"
    assert max(ports) < int(others.read_text().split()[0])


def test_keys_are_private_and_kept(tmp_path: Path) -> None:
    environments = [AirflowProcesses(tmp_path, tmp_path, port=1).environment() for _ in range(2)]

    assert environments[0] == environments[1]
    login = json.loads((tmp_path / "passwords.json").read_text())
    assert login["admin"] not in str(environments[0])
    for name in ("secrets.json", "passwords.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
