"""``continuous init``: what it writes works as it is."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from engine.commands.command_line import main
from engine.query.spec import load_spec


def ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A module of this Python, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "AIRFLOW_HOME": str(folder / "airflow"),
        },
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done


@pytest.mark.spark
def test_what_it_wrote_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "My shop's 2nd"
    assert main(["init", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "my_shop_s_2nd"
    assert all((folder / name).is_file() for name in told["files"])
    assert load_spec(folder / "query.yaml").name == "my_shop_s_2nd"
    done = ran(folder, "pytest", "-q", "-p", "no:cacheprovider", "test_query.py")
    assert "2 passed" in done.stdout or "1 passed, 1 skipped" in done.stdout
    assert "Logging error" not in done.stderr, "it complains behind its end"


def test_what_it_wrote_is_formatted(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    folder = tmp_path / "My shop's 2nd"
    assert main(["init", str(folder)]) == 0
    ruff = ("ruff", "format", "--check", "--isolated", "--line-length=100")
    ran(folder, *ruff, "dag.py", "test_query.py")


def test_airflow_finds_the_dag_alone(tmp_path: Path) -> None:
    """The test needs pytest, which an Airflow does not have."""
    pytest.importorskip("airflow")
    assert main(["init", str(tmp_path / "shop")]) == 0
    (tmp_path / "look.py").write_text(
        "from airflow.utils.file import list_py_file_paths\n"
        "print(list_py_file_paths('shop', safe_mode=True))"
    )
    assert ran(tmp_path, "look").stdout.splitlines()[-1] == "['shop/dag.py']"


def test_the_specification_is_right_in_any_folder(tmp_path: Path) -> None:
    for name in ('a "quoted" \\ one', "a ${DOLLAR} one", "class", "7", "größe"):
        assert main(["init", str(tmp_path / name)]) == 0
        spec = load_spec(tmp_path / name / "query.yaml")
        assert spec.checkpoint_location == str(tmp_path / name / "data" / "checkpoint")
        assert spec.source is not None
        assert Path(spec.source.options["path"]).joinpath("first.json").is_file()
        compile((tmp_path / name / "dag.py").read_text(), "dag.py", "exec")


@pytest.mark.parametrize("name", ["on", "null", "true", "timedelta"])
def test_a_folder_may_be_called_as_what_means_something(tmp_path: Path, name: str) -> None:
    assert main(["init", str(tmp_path / name)]) == 0
    assert load_spec(tmp_path / name / "query.yaml").name in (name, f"query_{name}")
    assert "def timedelta()" not in (tmp_path / name / "dag.py").read_text()


def test_what_comes_next_is_a_command_that_a_shell_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "My shop's 2nd")]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    specification = str(tmp_path / "My shop's 2nd" / "query.yaml")
    assert shlex.split(said.removeprefix("Next: ")) == ["continuous", "run", specification]


def test_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dag.py").write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 2
    assert "has dag.py already, and nothing was written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["dag.py"]
    assert (tmp_path / "dag.py").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["init", str(tmp_path / "file" / "below")]) == 2
    assert "cannot be written to" in capsys.readouterr().err


def test_a_folder_that_cannot_be_named_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "caf\udce9"
    assert main(["init", str(folder)]) == 2
    assert "is no UTF-8" in capsys.readouterr().err
    assert not folder.exists()
