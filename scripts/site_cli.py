"""The page of all commands, made of the parser of the command line itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from engine.commands.command_line import _parser

_HEAD = """\
# Commands

Made of the program's own help. Each takes `--json`, which prints one object, and `--debug`, which
logs more and shows tracebacks. Exit codes: 0 as asked, 1 it failed, 2 the arguments, the
specification or the machine are wrong, 130 after Ctrl-C, 141 whoever reads the output has left.
What they are for is described [with the specification](../specification.md#commands).
"""
_OF_EACH = ("--json", "--debug", "--help")


def page() -> str:
    """Its text, in Markdown."""
    (commands,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    parts = [_HEAD]
    for name, command in sorted(commands.choices.items()):
        parts += [f"\n## {name}\n", f"{_sentence(command.description or '')}\n"]
        parts += ["```text", " ".join(command.format_usage().split()[1:]), "```\n"]
        rows = [row for action in command._actions for row in _row(action)]
        if rows:
            parts += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(parts)


def _row(action: argparse.Action) -> Iterator[str]:
    names = action.option_strings or [str(action.metavar or action.dest)]
    if names[-1] not in _OF_EACH:
        value = f" {action.metavar}" if action.option_strings and action.metavar else ""
        yield f"| `{', '.join(names)}{value}` | {(action.help or '').replace('|', chr(92) + '|')} |"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
