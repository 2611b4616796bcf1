"""What ``continuous COMMAND --help`` tells somebody who has read nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from engine.checkpoint.retention import KEEP_EPOCHS_DEFAULT
from engine.commands.command_line import _parser, main
from engine.sinks.lakes.upkeep import REWINDABLE_S

Captured = pytest.CaptureFixture[str]


def arguments() -> Iterator[tuple[str, argparse.Action]]:
    """Of all commands."""
    (commands,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    for name, command in commands.choices.items():
        yield from ((name, action) for action in command._actions)


def helped(capsys: Captured, *words: str) -> str:
    """On one line."""
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_every_argument_is_told_with_its_default() -> None:
    silent = [(name, action.dest) for name, action in arguments() if not action.help]
    assert silent == []
    numbers = [(n, a) for n, a in arguments() if type(a.default) in (int, float)]
    assert len(numbers) > 5
    without = [
        (name, action.dest)
        for name, action in numbers
        if f"default: {action.default:g}" not in str(action.help)
    ]
    assert without == []


def test_every_duration_has_an_example() -> None:
    durations = [(name, action) for name, action in arguments() if action.metavar == "DURATION"]
    assert len(durations) == 4
    without = [
        (name, action.dest) for name, action in durations if ' days"' not in str(action.help)
    ]
    assert without == []


def test_bytes_are_called_bytes() -> None:
    sizes = [str(action.help) for _, action in arguments() if "bytes" in action.dest]
    assert [text for text in sizes if "bytes" not in text] == []


def test_what_is_kept_and_done_if_nothing_is_said(capsys: Captured) -> None:
    assert f"(default: {KEEP_EPOCHS_DEFAULT}, " in helped(capsys, "prune")
    told = helped(capsys, "maintain")
    assert "all three if none of them is named" in told
    assert REWINDABLE_S == 24 * 3600
    assert 'default: "1 day"' in told


def test_a_newcomer_is_told_the_words_and_the_exit_codes(capsys: Captured) -> None:
    told = helped(capsys)
    for word in ("SPEC is ", "CHECKPOINT is ", "continuous init", "Exit codes: 0 "):
        assert word in told


def test_a_replay_needs_the_query(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["replay", "checkpoint", "--epoch", "0"])
    assert ended.value.code == 2
    assert "required: --spec" in capsys.readouterr().err
    assert "the checkpoint holds no code" in helped(capsys, "replay")
