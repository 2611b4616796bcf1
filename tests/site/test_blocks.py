"""What the pages show is right: programs compile, documents parse, commands are there."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from engine.commands.command_line import _parser
from engine.errors import ConfigError
from engine.query.spec import load_spec
from tests.site.documents import DOCS, DOCUMENTS, ROOT, Block, blocks, commands


def of_language(*languages: str) -> list[Block]:
    return [block for page in DOCUMENTS for block in blocks(page) if block.language in languages]


def typed(program: str) -> Iterator[tuple[str, str]]:
    """Where, and what is typed behind a program's name."""
    for page in DOCUMENTS:
        for where, line in commands(page):
            if line.startswith(f"{program} "):
                yield where, line.removeprefix(f"{program} ")


@pytest.mark.parametrize("block", of_language("python"), ids=lambda block: block.where)
def test_programs_compile(block: Block) -> None:
    compile(block.text, block.where, "exec")


def test_documents_parse() -> None:
    for block in of_language("json"):
        json.loads(block.text)
    for block in of_language("yaml", "yml"):
        for document in yaml.safe_load_all(block.text):
            assert document is not None, block.where


def specifications() -> list[Block]:
    """Documents that are a whole query."""
    return [
        block
        for block in of_language("yaml", "yml")
        if isinstance(found := yaml.safe_load(block.text), dict)
        and ({"source", "sink"} <= set(found) or "query" in found)
    ]


@pytest.mark.parametrize("block", specifications(), ids=lambda block: block.where)
def test_specifications_are_valid(block: Block) -> None:
    """But for what is not here: connections of Airflow, and modules of the reader's own."""
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "text")
    try:
        load_spec(yaml.safe_load(block.text), variables)
    except ConfigError as error:
        _, *problems = error.message.splitlines()
        of_the_reader = re.compile("is a connection of Airflow|there is no module")
        assert [each for each in problems if not of_the_reader.search(each)] == []
        assert problems


def subcommands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return dict(found.choices)


def test_what_is_installed_is_enough() -> None:
    """Who follows a page in an empty environment can run the queries that it shows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    # These stand beside what is there already, or where no query runs.
    alone = {"prometheus", "opentelemetry", "top", "completion", "spark-submit"}
    lines = []
    for page in DOCUMENTS:
        for found in re.finditer(r"airflow-provider-continuous\[([\w, -]+)\]", page.read_text()):
            extras = set(found[1].replace(" ", "").split(","))
            assert extras <= set(project["optional-dependencies"]), (page, found[0])
            if page.name != "CHANGELOG.md":
                lines.append((page.name, extras))
    assert "quick-start.md" in dict(lines)
    short = [each for each in lines if not each[1] <= alone and "engine" not in each[1]]
    assert short == []


def test_every_extra_is_told() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## What needs what")[2].partition("\n## ")[0]
    told = set(re.findall(r"`\[([\w-]+)\]`", table))
    assert set(project["optional-dependencies"]) - told == {"airflow"}, "which is its own row"


def test_every_command_is_told() -> None:
    """Where people look for what there is."""
    for page in ("specification.md", "engine.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        start = "## Commands" if page == "specification.md" else "## The command line"
        told = text.partition(start)[2].partition("\n## ")[0]
        missing = [
            each for each in subcommands() if not re.search(rf"`(continuous )?{each}\b", told)
        ]
        assert missing == [], page


def test_our_commands_are_there() -> None:
    """Their flags, too; the values are people's."""
    known = subcommands()
    wrong = []
    for where, line in typed("continuous"):
        name, *rest = line.split()
        if not re.fullmatch(r"[a-z-]+", name):
            continue  # a placeholder, or an option of the program itself
        flags = [word.partition("=")[0] for word in rest if word.startswith("--")]
        if name not in known:
            wrong.append(f"{where}: continuous {name}")
            continue
        options = known[name]._option_string_actions
        wrong += [f"{where}: continuous {name} {flag}" for flag in flags if flag not in options]
    assert wrong == []


def test_commands_of_airflow_are_there() -> None:
    definition = ROOT / "airflow_provider_continuous" / "cli" / "definition.py"
    known = set(re.findall(r'command\(\s*"(\w+)"', definition.read_text(encoding="utf-8")))
    assert {"list", "status", "drain"} <= known
    named = {(where, line.split()[0]) for where, line in typed("airflow continuous")}
    assert {(where, name) for where, name in named if name.isalpha() and name not in known} == set()


def test_targets_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        (where, word)
        for where, line in typed("make")
        for word in line.split()[:1]
        if re.fullmatch(r"[a-z-]+", word)
    }
    assert len(named) > 5
    assert {(where, word) for where, word in named if word not in targets} == set()


def test_modules_that_are_run_are_there() -> None:
    named = {(where, line.split()[0]) for where, line in typed("python -m")}
    ours = {
        (where, module)
        for where, module in named
        if module.partition(".")[0] in ("engine", "tests", "bench", "airflow_provider_continuous")
    }
    assert ours
    assert {where: module for where, module in ours if find_spec(module) is None} == {}


def test_scripts_are_there() -> None:
    named = {
        (where, line.split()[0])
        for page in DOCUMENTS
        for where, line in commands(page)
        if re.match(r"(docker|scripts)/\w+\.sh\b", line)
    }
    assert {(where, name) for where, name in named if not Path(ROOT, name).exists()} == set()
