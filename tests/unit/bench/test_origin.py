"""Of which commit a figure is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.publishing import origin


def test_a_figure_is_of_the_commit_that_has_changed_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        asked = ["git", *who, *words]
        return subprocess.run(
            asked, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(name: str) -> str:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        git("add", "-A")
        git("commit", "-qm", name)
        return git("rev-parse", "--short=8", "HEAD")

    git("init", "-q")
    monkeypatch.setattr(origin, "ROOT", tmp_path)
    for kept in origin.MEASURED:
        if not kept.startswith(":"):
            last = commit(kept if "." in kept else f"{kept}/code.py")
    for other in ("docs/performance.md", "tests/test_code.py", "bench/publishing/reasons.py"):
        commit(other)
    assert origin.commit() == last
    (tmp_path / "tests" / "test_code.py").write_text("changed")
    assert origin.commit() == last
    (tmp_path / "engine" / "code.py").write_text("changed")
    assert origin.commit() == f"{last}+"
    assert commit("engine/more.py") == origin.commit()


def test_without_git_nothing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert origin.commit() == ""
