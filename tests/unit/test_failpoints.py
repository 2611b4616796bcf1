"""The places where a test may kill the process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import engine
from engine.base import failpoints

ENGINE = Path(engine.__file__).parent


def test_each_place_is_there_once() -> None:
    found = Counter(
        name
        for path in ENGINE.rglob("*.py")
        for name in re.findall(r"""\breach\("([^"]+)"\)""", path.read_text(encoding="utf-8"))
    )
    assert found == Counter(failpoints.NAMES)


@pytest.mark.parametrize(
    "text", ["prepare.befor:1:kill", "prepare.before:0:kill", "file.synced:1:die", "file.synced"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unpack|no failpoint"):
        failpoints.arm(text)
    assert failpoints._armed == {}


def test_the_environment_kills_at_the_nth_visit() -> None:
    program = (
        "from engine.base.failpoints import reach\n"
        "for turn in range(5): print(turn, flush=True); reach('file.synced')"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CONTINUOUS_FAILPOINT": "file.written:1:kill,file.synced:3:kill"},
        cwd=ENGINE.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout.split() == ["0", "1", "2"]


def test_or_suspends_until_somebody_wakes_it_up() -> None:
    program = "from engine.base.failpoints import reach\nreach('file.synced'); print('awake')"
    suspended = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "CONTINUOUS_FAILPOINT": "file.synced:1:stop"},
        cwd=ENGINE.parent,
        stdout=subprocess.PIPE,
    )
    _, status = os.waitpid(suspended.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    suspended.send_signal(signal.SIGCONT)
    assert suspended.communicate(timeout=60)[0] == b"awake\n"
    assert suspended.returncode == 0
