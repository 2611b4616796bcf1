"""Where the time of a benchmark goes: all Python processes of one engine, looked at by py-spy.

Samples are of threads that do something. What native code takes is of the line that calls it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bench.cases import CASES, module_of
from bench.publishing import origin
from bench.publishing.measurements import Profile
from bench.publishing.publish import publish_profile
from bench.running import TIMEOUT_S, surroundings

RATE = 200
"""Samples per second."""
SHOWN = 10
_PY_SPY = Path(sys.executable).parent / "py-spy"
_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^()]+?)(:\d+)?\)$")
_WAITING = frozenset(
    {"wait", "select", "poll", "accept", "readinto", "get", "_wait", "_wait_for_tstate_lock"}
)
"""Innermost functions that only wait, which py-spy does not always see."""
_OURS = ("engine/", "airflow_provider_continuous/")


def profile(case: str, engine: str, size: str, *, keep: bool) -> int:
    """Run an engine below py-spy, and print where its time goes; 1 if it has failed.

    :param engine: empty for the first one of the case.
    :param keep: add it to the page.
    :raises FailedError: a server that it needs does not start.
    :raises ValueError: there is no such case, or no such engine.
    """
    if case not in CASES:
        raise ValueError(f"{case} is no case: {', '.join(CASES)}")
    engine = engine or CASES[case].engines[0]
    if engine not in CASES[case].engines:
        raise ValueError(f"{engine} is no engine of {case}: {'; '.join(CASES[case].engines)}")
    with tempfile.TemporaryDirectory() as folder, surroundings(case, size) as environment:
        stacks = Path(folder, "stacks")
        done = subprocess.run(
            [
                _PY_SPY, "record", "--subprocesses", "--nolineno", "--format", "raw",
                "--rate", str(RATE), "--output", stacks, "--",
                sys.executable, "-m", "bench.one", module_of(case), engine,
            ],
            env=environment,
            cwd=origin.ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )  # fmt: skip
        if done.returncode or not stacks.exists():
            print(f"FAILED: {done.stdout[-2_000:]}\n{done.stderr[-2_000:]}", file=sys.stderr)
            return 1
        found = shares(stacks.read_text().splitlines())
    if not found:
        print(f"FAILED: {case}, {engine}: nothing was seen of the engine", file=sys.stderr)
        return 1
    for where, share in found:
        print(f"{share:6.1%}  {where}")
    if keep:
        machine, what = origin.machine()
        made = Profile(found, origin.commit(), origin.now(), machine)
        publish_profile(case, engine, made, {machine: what})
    return 0


def shares(stacks: Iterable[str], most: int = SHOWN) -> list[tuple[str, float]]:
    """The places that take the most, each with its share of all samples of the engine.

    A sample counts for the innermost function of ours in it, with what that has called of others:
    ``engine/task/loop.py read → pyarrow``. What waits, imports, or is of the benchmark does
    not count.

    :param stacks: as py-spy writes them: frames with ``;`` between, a blank, and how often.
    """
    counted: Counter[str] = Counter()
    for line in stacks:
        stack, _, times = line.rpartition(" ")
        where = _place(stack.split(";"))
        if where is not None:
            counted[where] += int(times)
    whole = sum(counted.values())
    return [(where, times / whole) for where, times in counted.most_common(most)]


def _place(frames: list[str]) -> str | None:
    called = ""
    known = [found for frame in reversed(frames) if (found := _FRAME.match(frame)) is not None]
    if not known or known[0]["function"].rpartition(".")[2] in _WAITING:
        return None
    for found in known:
        file, function = found["file"].replace("\\", "/"), found["function"]
        if "importlib" in file or "zipimport" in file or function == "<module>":
            return None
        ours = "" if "site-packages/" in file else _path_of_ours(file)
        if ours:
            return f"{ours} {function}{called}"
        called = called or f" → {_module(file)} {function}"
    return None


def _path_of_ours(file: str) -> str:
    """From the project's folder on; empty for a file of others."""
    for package in _OURS:
        if file.startswith(package) or f"/{package}" in file:
            return package + file.rpartition(package)[2]
    return ""


def _module(file: str) -> str:
    """Of somebody else's file, what people call it by."""
    parts = file.rpartition("site-packages/")[2].split("/")
    return parts[0].removesuffix(".py") if len(parts) > 1 else parts[-1].removesuffix(".py")
