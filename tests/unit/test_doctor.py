"""``doctor``, as far as it needs no Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from engine.checkpoint.storage import opening
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.commands import doctor
from engine.commands.command_line import main
from engine.commands.doctor import Finding, check_java, check_pyspark, check_python, check_storage
from engine.errors import ConfigError


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_java", lambda: None)
    finding = check_java()
    assert finding.state == "failed"
    assert "pip install" in finding.advice


def test_overwritten_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "changed_files", lambda: ["pyspark/a.py"] * 5)
    finding = check_pyspark()
    assert finding.state == "failed"
    assert finding.found.startswith("5 files of pyspark ")
    assert "--force-reinstall" in finding.advice


def test_two_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "changed_files", list)
    versions = {"pyspark": "4.3.0", "pyspark-client": "4.2.0"}
    monkeypatch.setattr(doctor, "installed_version", versions.get)
    assert check_pyspark().state == "warning"
    versions["pyspark-client"] = "4.3.0"
    assert check_pyspark().state == "ok"


def test_the_python_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert sys.executable in check_python().found, "what a start of a query sets"
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert check_python().state == "ok"
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 2.7\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    finding = check_python()
    assert (finding.state, "is version 2.7" in finding.found) == ("warning", True)
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "missing"))
    assert "does not start" in check_python().found


def test_storage_that_keeps_its_promise(tmp_path: Path) -> None:
    finding = check_storage(str(tmp_path))
    assert (finding.check, finding.state) == ("storage", "ok")
    assert finding.found.endswith("keeps create-if-absent; not used yet")


def test_storage_that_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(self: LocalStorage, name: str, data: bytes) -> bool:
        self.replace(name, data)
        return True

    monkeypatch.setattr(LocalStorage, "create", create)
    with pytest.raises(ConfigError, match="does not keep create-if-absent"):
        check_storage(str(tmp_path))
    assert opening.open_storage(str(tmp_path)).list("control") == []


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("warning", 0), ("failed", 1)])
def test_the_command(
    state: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(doctor, "check_spark", lambda: Finding("spark", state, "it is", "Rest."))
    monkeypatch.setattr(doctor, "check_class_archive", lambda: Finding("class archive", "ok", "it"))
    assert main(["doctor", str(tmp_path), "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["healthy"] is (code == 0)
    checks = [finding["check"] for finding in found["findings"]]
    archive = [] if state == "failed" else ["class archive"]
    assert checks == ["java", "pyspark", "python", "spark", *archive, "storage"]
    assert main(["doctor"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert f"{state:8} spark: it is Rest." in lines


def test_what_failed_is_told_without_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> Finding:
        raise ConfigError("password=hunter2 is wrong.", hint="Not token=hunter2.")

    monkeypatch.setattr(doctor, "check_spark", refuse)
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "failed   spark: password=*** is wrong. Not token=***" in shown
