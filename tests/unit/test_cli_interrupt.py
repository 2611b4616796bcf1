"""Ctrl-C before a command has begun."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED_AT = """
import importlib.abc, os, runpy, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == imported:
            os.kill(os.getpid(), signal.SIGINT)

# Ignored, if the tests were started in the background of a shell.
signal.signal(signal.SIGINT, signal.default_int_handler)
imported = sys.argv[1]
sys.meta_path.insert(0, Interrupt())
sys.argv[:] = ["continuous", "status", "nowhere"]
runpy.run_module("engine", run_name="__main__")
"""


@pytest.mark.parametrize(
    "imported",
    ["engine.commands.command_line", "argparse", "engine.redaction.logs", "engine.commands.status"],
)
def test_ctrl_c_while_it_is_loaded_leaves_no_trace(imported: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT, imported]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
