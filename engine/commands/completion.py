"""Completion in a shell, by argcomplete: commands, options, files; epochs and pins of a checkpoint;
classes of errors.

``eval "$(register-python-argcomplete continuous)"`` makes it known to bash and zsh. Nothing of it
is imported otherwise.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from engine.checkpoint.checkpoint import Checkpoint


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell, and end the process; return if argcomplete is not installed."""
    try:
        import argcomplete
    except ImportError:
        return
    from argcomplete.completers import DirectoriesCompleter

    known = {
        "checkpoint": DirectoriesCompleter(),
        "checkpoints": DirectoriesCompleter(),
        "directory": DirectoriesCompleter(),
        "places": DirectoriesCompleter(),
        "target": DirectoriesCompleter(),
        "epoch": _epochs,
        "to_epoch": _epochs,
        "to_pin": _pins,
        "name": _pins,
        "error": _errors,
    }
    for action in _actions(parser):
        if action.dest in known:
            action.completer = known[action.dest]  # type: ignore[attr-defined]  # argcomplete's
    argcomplete.autocomplete(parser)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action


def _epochs(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    checkpoint = _on_this_machine(parsed_args)
    return [] if checkpoint is None else [str(epoch) for epoch in checkpoint.epochs()]


def _pins(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    if parsed_args.command == "pin":  # its name is a new one
        return []
    checkpoint = _on_this_machine(parsed_args)
    return [] if checkpoint is None else [pin.name for pin in checkpoint.pinned_epochs()]


def _errors(**_: Any) -> list[str]:
    from engine.commands.show_errors import catalogue

    return [entry.name for entry in catalogue()]


def _on_this_machine(parsed_args: argparse.Namespace) -> Checkpoint | None:
    """The checkpoint, unless a shell would have to wait for a network."""
    location = getattr(parsed_args, "checkpoint", None)
    return None if not location or "://" in location else Checkpoint(location)
