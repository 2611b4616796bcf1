"""Runs of random trees add up while the code is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.parity import releases


@pytest.fixture(autouse=True)
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "PATH", tmp_path / "releases.json")
    releases.PATH.write_text('{"4.3.0": {"trees": 7, "values": 70, "differing": 0}}')


def _run(**other: Any) -> dict[str, Any]:
    return {"trees": 100, "values": 1_000, "differing": 1, "java": "17", **other}


def test_other_seeds_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (2, 1, 2):
        releases.record("4.2.0", seed, _run())
    assert releases.load()["4.2.0"] == {
        **_run(trees=200, values=2_000, differing=2),
        "seeds": [1, 2],
        "code": releases.code(),
    }
    assert releases.load()["4.3.0"]["trees"] == 7
    monkeypatch.setattr(releases, "code", lambda: 5)
    releases.record("4.2.0", 3, _run())
    assert releases.load()["4.2.0"]["seeds"] == [3]
    assert releases.load()["4.2.0"]["trees"] == 100


@pytest.mark.parametrize(("version", "java"), [("4.2.1", "17"), ("4.2.0", "21")])
def test_another_version_begins_anew(version: str, java: str) -> None:
    releases.record("4.2.0", 1, _run())
    releases.record(version, 2, _run(java=java))
    assert [each for each in releases.load() if each.startswith("4.2")] == [version]
    assert releases.load()[version]["seeds"] == [2]
