"""The wheel in empty environments: what a user gets who types ``pip install``.

Packages come from uv's cache where it has them. Without it, and without a network, these tests are
skipped, and say so.
"""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_continuous.hooks.query import ContinuousQueryHook
from engine.checkpoint.query_state import QueryState
from engine.spark.java import find_java, use_java
from scripts.local_airflow.rest import wait_for
from tests.first_query import first_query, without_activation

pytestmark = pytest.mark.system
REPOSITORY = Path(__file__).parents[2]
_OFFLINE = re.compile(r"error sending request|dns error|failed to fetch|network", re.I)
WITH_A_FUNCTION = """
from pyspark.sql.functions import udf

shifted = df.select(udf(lambda value: value + 1, "bigint")("v").alias("next"))
query = write_stream(shifted).format("memory").queryName("shifted").start()
query.awaitEpoch(2)
query.drain()
assert spark.table("shifted").where("next > 0").count() > 0
"""
"""What follows the README's query."""
DOCTOR_WITHOUT_ARCHIVE = """
from engine.commands import doctor
from engine.commands.command_line import main

doctor.check_class_archive = lambda: doctor.Finding("class archive", "left out", "")
raise SystemExit(main(["doctor", "--json"]))
"""
"""To make the archive takes longer than all else; `make test-matrix` has it made."""


def called(*arguments: str) -> subprocess.CompletedProcess[str]:
    """uv, outside of the project, whose settings are not a user's."""
    find = ["sh", str(REPOSITORY / "scripts" / "find_uv.sh"), sys.executable]
    found = subprocess.run(find, capture_output=True, text=True, check=True).stdout.strip()
    program = str(REPOSITORY / found) if found.startswith(".uv") else found
    return subprocess.run(
        [program, "--no-config", "--directory", "/", *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        env={k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")},
    )


def uv(*arguments: str) -> str:
    """What uv says."""
    ran = called(*arguments)
    if ran.returncode and _OFFLINE.search(ran.stderr):
        pytest.skip(f"no package index: {ran.stderr.strip().splitlines()[-1]}")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built."""
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--quiet", "--wheel", "--out-dir", str(folder), str(REPOSITORY))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the package and what it needs."""
    return install(tmp_path_factory.mktemp("plain"), f"{wheel}[engine]")


def install(folder: Path, *packages: str) -> Path:
    """An environment with these, from what uv's cache holds if that is enough: `make test-matrix`
    takes the newest, for which uv may build PySpark again, and that takes longer than a test."""
    python = folder / "venv" / "bin" / "python"
    uv("venv", "--quiet", "--python", sys.executable, str(folder / "venv"))
    command = ("pip", "install", "--quiet", "--python", str(python), *packages)
    if called(*command, "--offline").returncode:
        uv(*command)
    return python


def ran(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    """Standard output of a program that ends well, in an environment that is not activated."""
    java = find_java()
    assert java is not None
    use_java(java)
    ended = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**without_activation(), **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def seen_without_an_engine(python: Path, folder: Path, *more: str) -> None:
    """Let the program tests/system/light_door.py look at a checkpoint, and judge what it saw."""
    shutil.copytree(REPOSITORY / "tests/golden/checkpoints/engine-v1", folder / "all" / "query")
    program = [python, REPOSITORY / "tests/system/light_door.py", folder / "all", "query", *more]
    told = json.loads(ran(program, folder, AIRFLOW_HOME=str(folder)).splitlines()[-1])
    extra = "pip install 'airflow-provider-continuous[engine]'"
    assert told["modules"] > 100
    assert told["sensor"] is True
    assert told["trigger"]["outcome"] == "committed"
    assert told["page"] == [200] * 4
    assert (told["status"]["code"], told["status"]["epoch"]) == (0, 2)
    assert [each["epoch"] for each in told["epochs"]["epochs"]] == [1, 2]
    assert told["run"]["code"] == 2
    for refused in (told["run"]["error"], told["started"], told["engine"], *advice(told["doctor"])):
        assert extra in refused
    assert told["loaded"] == []


def advice(told: dict[str, Any]) -> list[str]:
    """Of the doctor, about Spark: one at least."""
    found = [each["advice"] for each in told["findings"] if each["check"] == "spark"]
    assert found
    return found


def test_who_only_looks_needs_no_engine(tmp_path: Path) -> None:
    seen_without_an_engine(Path(sys.executable), tmp_path, "--blocked")


@pytest.mark.sampled(0.2)
def test_the_wheel_without_an_engine_serves_who_only_looks(wheel: Path, tmp_path: Path) -> None:
    python = install(tmp_path, f"{wheel}[airflow]")
    seen_without_an_engine(python, tmp_path)


def test_the_wheel_has_the_two_packages_and_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        said = email.message_from_bytes(archive.read(about))
    top = {name.partition("/")[0] for name in names}
    assert top == {"engine", "airflow_provider_continuous", about.partition("/")[0]}
    assert {"engine/py.typed", "airflow_provider_continuous/py.typed"} <= set(names)
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    assert said["License-Expression"] == "Apache-2.0"
    needed = [each for each in said.get_all("Requires-Dist", []) if "extra ==" not in each]
    assert {re.split(r"[<>=!~ ]", each)[0] for each in needed} == {
        "fsspec", "msgspec", "pyyaml", "tzdata",
    }  # fmt: skip
    assert {"airflow", "engine", "spark-submit"} <= set(said.get_all("Provides-Extra", []))


def test_the_catalogue_of_errors_comes_along(wheel: Path, plain: Path, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "errors.md").read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("engine/commands/errors.md") == page
    told = ran([plain.with_name("continuous"), "errors", "SinkAheadError"], tmp_path)
    assert told.startswith("SinkAheadError\nThe sink has epochs that this checkpoint has never ")


def test_the_first_query_runs_and_one_with_a_function(plain: Path, tmp_path: Path) -> None:
    program = tmp_path / "first.py"
    program.write_text(first_query(tmp_path) + WITH_A_FUNCTION)
    assert "timestamp" in ran([plain, program], tmp_path)


def test_the_doctor_finds_a_plain_installation_well(plain: Path, tmp_path: Path) -> None:
    assert "doctor" in ran([plain.with_name("continuous"), "--help"], tmp_path)
    told = json.loads(ran([plain, "-c", DOCTOR_WITHOUT_ARCHIVE], tmp_path))
    assert [each for each in told["findings"] if each["state"] == "failed"] == []


@pytest.mark.sampled(0.2)
def test_the_oldest_pyspark_runs_a_query_and_one_with_a_function(
    wheel: Path, tmp_path: Path
) -> None:
    """PySpark 4.1 hands over Python functions in another way."""
    python = install(tmp_path, f"{wheel}[engine]", "pyspark==4.1.*")
    program = tmp_path / "first.py"
    told = 'import pyspark\nprint("PySpark", pyspark.__version__)\n'
    program.write_text(first_query(tmp_path) + WITH_A_FUNCTION + told)
    assert "\nPySpark 4.1." in ran([python, program], tmp_path)


@pytest.mark.sampled(0.2)
def test_the_doctor_finds_the_extra_of_spark_submit_well(wheel: Path, tmp_path: Path) -> None:
    """It has pyspark and pyspark-client, which write the same files."""
    python = install(tmp_path, f"{wheel}[airflow,engine,spark-submit]")
    told = json.loads(ran([python, "-c", DOCTOR_WITHOUT_ARCHIVE], tmp_path))
    assert {each["check"]: each["state"] for each in told["findings"]} == {
        "java": "ok", "pyspark": "ok", "python": "ok", "spark": "ok", "class archive": "left out",
    }  # fmt: skip


@pytest.mark.sampled(0.2)
def test_airflow_starts_a_query_in_another_environment(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "continuous", "extra": {"python": str(plain)}}
    monkeypatch.setenv("AIRFLOW_CONN_CONTINUOUS_DEFAULT", json.dumps(connection))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    hook = ContinuousQueryHook()
    location = str(tmp_path / "checkpoint")
    submitted = hook.submit(
        hook.specification(
            {
                "source": {"format": "rate", "options": {"numPartitions": 1}},
                "sink": {"format": "noop"},
                "trigger": {"continuous": "500 milliseconds"},
                "conf": {"spark.master": "local[1]"},
                "checkpoint_location": location,
            }
        )
    )
    try:
        status = hook.wait_until_started(submitted, timeout_s=180)
        assert psutil.Process(status.pid).cmdline()[0] == str(plain)
        wait_for(lambda: hook.status(location).epoch >= 1 or None, 120, "a committed epoch")
    finally:
        submitted.process.terminate()
        submitted.process.wait(120)
    assert hook.status(location).state is QueryState.STOPPED
