"""Style that a machine can see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "engine", "airflow_provider_continuous", "dags", "scripts",
    "tests", "bench", "docs",
)  # fmt: skip
LINES_MAX = 500
MEDIAN_LINES_MAX = 200
PURE = ("coordinator/coordinator.py", "coordinator/restart_table.py", "checkpoint/retention.py")
IMPURE_MODULES = {"datetime", "os", "random", "secrets", "socket", "threading", "time", "uuid"}
# Spelt in two halves, so that this file does not find itself.
LEFTOVERS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
LOGS = ("logger.", "self.log.", "self._log.")
ELSEWHERE = {
    "a package registry": re.compile("py" + r"pi\.org|python" + r"hosted\.|repo1?\." + "maven"),
    "the folder it is in": re.compile(re.escape(f"{ROOT}/")),
}


def _texts() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".sh", ".md", ".yaml", ".yml"):
                yield path
    yield from ROOT.glob("*.md")
    yield from (ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / ".ci" / "run")


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_file_is_too_long() -> None:
    lengths = {str(p.relative_to(ROOT)): _lines(p) for p in _texts() if p.suffix == ".py"}
    assert {path: lines for path, lines in lengths.items() if lines > LINES_MAX} == {}


def test_a_file_is_one_room() -> None:
    packages = [ROOT / "engine", ROOT / "airflow_provider_continuous"]
    lengths = [_lines(path) for package in packages for path in package.rglob("*.py")]
    assert median(length for length in lengths if length) <= MEDIAN_LINES_MAX


@pytest.mark.parametrize("path", PURE)
def test_pure_modules_have_no_clock_and_no_chance(path: str) -> None:
    tree = ast.parse((ROOT / "engine" / path).read_text(encoding="utf-8"))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported & IMPURE_MODULES == set()


def test_nothing_is_left_over() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if LEFTOVERS.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("what", ELSEWHERE)
def test_the_project_names_no_place_outside_of_it(what: str) -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in _texts()
        if ELSEWHERE[what].search(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_errors_of_others_are_logged_redacted() -> None:
    """An error of the engine hides secrets itself; what ``except Exception`` catches may be of
    anybody, and is not to be logged as it is."""
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for package in ("engine", "airflow_provider_continuous")
        for path in sorted((ROOT / package).rglob("*.py"))
        for handler in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(handler, ast.ExceptHandler) and handler.type is not None
        if ast.unparse(handler.type) in ("Exception", "BaseException")
        for call in ast.walk(handler)
        if isinstance(call, ast.Call) and ast.unparse(call.func).startswith(LOGS)
        if any(isinstance(given, ast.Name) and given.id == handler.name for given in call.args)
    ]
    assert found == []


def test_no_drawn_example_has_a_deadline() -> None:
    """By default one that takes 200 ms has failed: on a busy machine any may."""
    assert settings().deadline is None
