"""What the pages say to install fits together."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator

import pytest
from packaging.requirements import InvalidRequirement, Requirement

from tests.site.documents import DOCUMENTS, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_INSTALL = re.compile(r"\bpip install\s+([^`&\n]+)")
SPARK_PROVIDER = "apache-airflow-providers-apache-spark"

Packages = dict[str, Requirement]


def installs() -> Iterator[tuple[str, Packages]]:
    """What each command installs, by name, with its page."""
    for page in DOCUMENTS:
        for words in _INSTALL.findall(page.read_text(encoding="utf-8")):
            try:
                found = list(map(Requirement, shlex.split(words, comments=True)))
            except (InvalidRequirement, ValueError):  # it is prose, or has options
                continue
            yield str(page.relative_to(ROOT)), {each.name: each for each in found}


def test_the_pages_have_commands() -> None:
    assert len(list(installs())) > 10


def test_what_the_engine_imports_is_installed_as_its_extra_does() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["engine"]]
    wanted = {each.name: each for each in map(Requirement, needed) if each.name != "pyspark"}
    commands = [(page, found) for page, found in installs() if "msgspec" in found]

    assert len(commands) >= 2
    for page, found in commands:
        assert found.keys() == wanted.keys(), page
        for name, requirement in found.items():
            assert _below(requirement) == _below(wanted[name]), f"{page}: {name}"


@pytest.mark.parametrize("package", ["pyspark", "pyspark-client"])
def test_who_installs_the_spark_provider_says_which_pyspark(package: str) -> None:
    """It brings the client of the newest version along, which has files of pyspark's own."""
    commands = [(page, found) for page, found in installs() if SPARK_PROVIDER in found]

    assert commands
    for page, found in commands:
        assert package in found, page
        assert str(found[package].specifier) == str(found["pyspark"].specifier), page
        assert str(found[package].specifier).startswith("=="), page


def _below(requirement: Requirement) -> set[str]:
    return {str(each) for each in requirement.specifier if each.operator.startswith("<")}
