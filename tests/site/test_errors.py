"""docs/errors.md has a part for each class of error, and for none that is not there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from engine.errors import ContinuousError
from tests.site.documents import DOCS, ROOT

OURS = ("engine", "airflow_provider_continuous")


@cache
def classes() -> list[tuple[Path, ast.ClassDef]]:
    """Those in whose files an error is defined, or may be."""
    files = [path for package in OURS for path in (ROOT / package).rglob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    return [
        (path, node)
        for path, text in texts.items()
        if re.search(r"^\s*class (\w+Error\b|\w+\(.*Error)", text, re.MULTILINE)
        or path.name == "errors.py"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
    ]


def errors() -> set[str]:
    """Kinds of ContinuousError, wherever they are, and every error of the provider."""
    found = {ContinuousError.__name__}
    known = classes()
    while True:
        more = {
            node.name
            for path, node in known
            if any(isinstance(base, ast.Name) and base.id in found for base in node.bases)
            or (node.name.endswith("Error") and OURS[1] in path.parts)
        } - found
        if not more:
            return found
        found |= more


def test_every_error_is_in_the_catalogue() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    named = re.findall(r"^### (\w+)$", text, re.MULTILINE)
    assert sorted(named) == sorted(errors())


def test_each_says_what_to_do() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    parts = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    silent = [part.split("\n")[0] for part in parts if "**Do:**" not in part]
    assert silent == ["TaskError", "ContinuousError"]


def test_what_airflow_retries_is_said() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    said = set(re.findall(r"\[`(\w+)`\]\(#", text.partition("\n## ")[0]))
    retryable = {
        node.name
        for _, node in classes()
        for part in node.body
        if isinstance(part, ast.Assign) and ast.unparse(part) == "retryable = True"
    }
    inherited = {"PeerLostError"}  # from TaskLostError
    beside = {"CheckpointError", "QueryFailedError", "WaitTimeoutError"}
    assert said == retryable | inherited | beside
