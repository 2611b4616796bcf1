"""Who may import whom: the contracts of pyproject.toml, and what really gets imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from pkgutil import walk_packages

import grimp
import pytest

ROOT = Path(__file__).parents[2]
NEEDS_NO_SPARK = (
    "base",
    "checkpoint",
    "coordinator",
    "expressions",
    "history",
    "pipeline",
    "progress",
    "task",
    "wire",
)
LIGHT_DOORS = (
    "airflow_provider_continuous.get_provider_info",
    "airflow_provider_continuous.hooks.checkpoint",
    "airflow_provider_continuous.sensors",
    "airflow_provider_continuous.triggers",
)


def test_import_contracts_are_kept() -> None:
    linted = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_no_files_go_in_a_circle_not_even_for_their_types() -> None:
    graph = grimp.build_graph("engine", "airflow_provider_continuous", cache_dir=None)
    root = {"engine"}  # its public names, which it imports when they are asked for
    TopologicalSorter(
        {each: graph.find_modules_directly_imported_by(each) - root for each in graph.modules}
    ).prepare()


def test_the_heart_of_the_engine_loads_no_spark() -> None:
    modules = [name for room in NEEDS_NO_SPARK for name in _modules(f"engine.{room}")]
    assert len(modules) > len(NEEDS_NO_SPARK)
    assert _loaded_by(modules, ("pyspark", "py4j")) == []


def test_importing_the_engine_or_its_commands_loads_nothing_heavy() -> None:
    modules = [
        "engine",
        "engine.commands.command_line",
        "engine.query.spec",
        "engine.commands.run_query",
    ]
    modules += ["engine.commands.status", "engine.commands.control"]
    assert _loaded_by(modules, ("pyspark", "py4j", "pyarrow", "pandas", "numpy")) == []


@pytest.mark.parametrize("door", LIGHT_DOORS)
def test_a_triggerer_or_a_sensor_loads_no_spark(door: str) -> None:
    assert _loaded_by(list(_modules(door)), ("pyspark", "py4j", "pandas", "numpy")) == []


def test_what_a_dag_uses_needs_no_pyspark() -> None:
    """Queries may run in an environment of their own; Airflow's then has none of these."""
    doors = ("decorators", "hooks", "operators", "sensors", "triggers")
    modules = [m for door in doors for m in _modules(f"airflow_provider_continuous.{door}")]
    assert len(modules) > 2 * len(doors)
    _loaded_by(modules, (), missing=("pyspark", "py4j", "pandas", "numpy", "pyarrow"))


def test_the_provider_info_is_found_before_airflow_has_loaded() -> None:
    assert _loaded_by(["airflow_provider_continuous.get_provider_info"], ("airflow",)) == []


def _modules(name: str) -> Iterator[str]:
    """A module and, if it is a package, all below it."""
    yield name
    folder = ROOT / Path(*name.split("."))
    if folder.is_dir():
        for module in walk_packages([str(folder)], prefix=f"{name}."):
            yield module.name


def _loaded_by(
    modules: list[str], unwanted: tuple[str, ...], missing: tuple[str, ...] = ()
) -> list[str]:
    """Which of ``unwanted`` a fresh interpreter has loaded after importing the modules.

    :param missing: what it cannot import, as if it were not installed.
    """
    code = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({missing!r}))\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print('loaded', *[name for name in {unwanted!r} if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout.strip().splitlines()[-1].split()[1:]
