"""What a shell is told when somebody presses the tab key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.logs.commit_log import CommitEntry
from engine.checkpoint.logs.offset_log import OffsetEntry


def completed(line: str, folder: Path) -> list[str]:
    """The words that the shell is offered behind this line."""
    answer = folder / "answer"
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "from engine.commands.command_line import main; main()",
        ],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_IFS": "\n",
            "_ARGCOMPLETE_SHELL": "bash",
            "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
    words = [word.strip() for word in answer.read_text().split("\n")]
    answer.unlink()
    return words


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    checkpoint.create_or_read_query_id("query-1")
    for epoch in (7, 8):
        checkpoint.offsets.add(epoch, OffsetEntry(({"0": epoch},)))
        checkpoint.commits.add(epoch, CommitEntry(0))
    checkpoint.pin("before-upgrade", 7)
    (tmp_path / "query.yaml").write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("continuous re", ["replay", "rescale", "rewind"]),
        ("continuous epochs checkpoint --fo", ["--follow"]),
        ("continuous run qu", ["query.yaml"]),
        ("continuous status ch", ["checkpoint/"]),
        ("continuous replay checkpoint --epoch ", ["7", "8"]),
        ("continuous rewind checkpoint --to-pin ", ["before-upgrade"]),
        ("continuous unpin checkpoint be", ["before-upgrade"]),
        ("continuous errors SinkCommit", ["SinkCommitRejectedError", "SinkCommitUnknownError"]),
        ("continuous replay s3://bucket/checkpoint --epoch ", [""]),
    ],
)
def test_words_are_offered(folder: Path, line: str, words: list[str]) -> None:
    assert sorted(completed(line, folder)) == words
