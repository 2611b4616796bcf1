"""Every engine of a case in a process of its own, in turn, some times; what came out, as rows."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from bench.broker import VARIABLE as KAFKA
from bench.broker import warm_broker
from bench.cases import CASES, Case, module_of
from bench.measure import spread
from bench.publishing.measurements import Row
from bench.publishing.ratios import ratio
from bench.size import VARIABLE as SIZE
from bench.size import WHOLE

TIMEOUT_S = 900
ASIDE = ("rows", "yardstick", "version", "missing")
"""What a process tells that is no figure."""

_NOWHERE = Row()
Told = Mapping[str, Any]
Runs = Mapping[str, Sequence[Told]]


class FailedError(Exception):
    """A benchmark has ended with an error; says which, and with what."""


@contextmanager
def surroundings(case: str, size: str) -> Iterator[Mapping[str, str]]:
    """What the runs of a case share, until the end of the block: their environment.

    :raises FailedError: a server that they need does not start.
    """
    environment = os.environ | {SIZE: size}
    with ExitStack() as stack:
        if CASES[case].with_kafka:
            try:
                environment[KAFKA] = stack.enter_context(warm_broker(size))
            except Exception as error:
                raise FailedError(f"{case}: its broker does not start: {error!r}") from error
        yield environment


def run(case: str, engine: str, environment: Mapping[str, str]) -> Told:
    """Measure in a process of its own.

    :param environment: of :func:`surroundings`.
    :raises FailedError: it fails, or takes too long.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.one", module_of(case), engine],
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"{case}, {engine}, takes more than {error.timeout:g} s") from None
    if done.returncode:
        raise FailedError(f"{case}, {engine}, ends with {done.returncode}:\n{done.stderr[-5_000:]}")
    told: dict[str, Any] = {}
    for line in done.stdout.splitlines()[-2:]:  # what it measured, and the yardstick
        told |= json.loads(line)
    return told


def rows(
    name: str,
    times: int,
    size: str = WHOLE,
    *,
    origin: Row = _NOWHERE,
    failed: Callable[[str], None] = print,
) -> dict[str, Row]:
    """Measure all engines of a case in turn, and print what came out.

    :param origin: what commit, time and machine all rows have.
    :param failed: is told of an engine that has failed; it gets no row.
    """
    runs: dict[str, list[Told]] = {engine: [] for engine in CASES[name].engines}
    took_s = dict.fromkeys(runs, 0.0)
    given_up: set[str] = set()

    def measure(engine: str, environment: Mapping[str, str]) -> None:
        began_s = time.monotonic()
        try:
            runs[engine].append(run(name, engine, environment))
        except FailedError as error:
            given_up.add(engine)
            failed(str(error))
        took_s[engine] += time.monotonic() - began_s

    try:
        with surroundings(name, size) as environment:
            for _ in range(times):
                for engine in [each for each in runs if each not in given_up]:
                    measure(engine, environment)
    except FailedError as error:
        failed(str(error))
        return {}
    whole = {engine: told for engine, told in runs.items() if engine not in given_up}
    measured = {
        engine: row_of(told, replace(origin, runs=len(told), seconds=round(took_s[engine], 1)))
        for engine, told in whole.items()
    }
    _show(CASES[name], whole)
    _show_ratios(CASES[name], measured)
    return measured


def row_of(told: Sequence[Told], origin: Row) -> Row:
    """The medians of those runs of one engine that have figures; or why none has."""
    whole = [each for each in told if "missing" not in each]
    if not whole:
        first = told[0]
        return replace(origin, missing=first["missing"], version=first.get("version"), runs=0)
    names = [name for name in whole[0] if name not in ASIDE]
    return replace(
        origin,
        runs=len(whole),
        figures={name: statistics.median(each[name] for each in whole) for name in names},
        yardstick=statistics.median(each["yardstick"] for each in whole),
        version=whole[0].get("version"),
    )


def _show(case: Case, runs: Runs) -> None:
    """Print all figures of some runs."""
    print(f"\n{case.text}: median of runs (min … max)")
    for engine, told in runs.items():
        whole = [each for each in told if "missing" not in each]
        names = [name for name in (whole or told)[0] if name not in ASIDE]
        shown = [f"{name} {spread([each[name] for each in whole], 2)}" for name in names]
        why = [each["missing"] for each in told if "missing" in each]
        print(f"  {engine:20} {'   '.join([*shown, *dict.fromkeys(why)])}")


def _show_ratios(case: Case, measured: Mapping[str, Row]) -> None:
    """Print how many times as good the first engine is as each other."""
    ours, *others = case.engines if case.compares else [""]
    for other in (each for each in others if each in measured and ours in measured):
        for figure, theirs in measured[other].figures.items():
            value = measured[ours].figures.get(figure)
            found = None if value is None else ratio(case, figure, value, theirs)
            if found is not None:
                print(f"  {ours} is {found:.2f} x as good as {other} in {figure}")
