"""Lines of JSON that name query, run, generation, epoch and partition, and have no secrets."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import TransformError
from engine.logs.json_lines import JsonFormatter, log_as_json, logs_json
from engine.redaction.logs import RedactingFormatter, log_failure
from engine.sinks.epoch_context import EpochContext

logger = logging.getLogger("tests.json")


@pytest.fixture
def lines() -> Iterator[Any]:
    """What is logged inside of the test; the handlers of before are back behind it."""
    root = logging.getLogger()
    before, stream = list(root.handlers), io.StringIO()
    hooks = sys.excepthook, sys.unraisablehook, threading.excepthook
    log_as_json(stream, lambda: {"query": "orders", "run": "r", "generation": 3, "epoch": 17})
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    EpochContext.set(None)
    root.handlers[:] = before
    sys.excepthook, sys.unraisablehook, threading.excepthook = hooks
    logging.captureWarnings(False)


def test_a_line_says_what_it_is_of(lines: Any) -> None:
    logger.warning("two\nlines, %s", "password=hunter2")
    (told,) = lines()
    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "WARNING",
        "logger": "tests.json",
        "message": "two\nlines, password=***",
        "query": "orders",
        "run": "r",
        "generation": 3,
        "epoch": 17,
    }
    assert logs_json()


def test_epoch_and_partition_are_those_of_the_error(lines: Any) -> None:
    try:
        raise TransformError("token=abc123", epoch=9, partition=2)
    except TransformError:
        log_failure(logger, "it failed")
        logger.exception("again")
    logger.warning("of another", extra={"epoch": 4, "partition": 1})
    first, again, other = lines()
    for told in (first, again):
        assert (told["epoch"], told["partition"]) == (9, 2)
    assert "Traceback" in again["trace"]
    assert (other["epoch"], other["partition"]) == (4, 1)
    assert "abc123" not in json.dumps([first, again])


def test_a_task_says_which_epoch_it_writes(lines: Any) -> None:
    EpochContext.set(EpochContext("q", "r", 3, 0, 18))
    logger.warning("x")
    assert lines()[0]["epoch"] == 18


def test_what_is_neither_text_nor_number_is_told_as_text(lines: Any) -> None:
    """JSON has no NaN, and what others hang on a record may have a secret."""
    for value in ({"password": "hunter2"}, float("nan"), b"token=hunter2", 0.5):
        logger.warning("x", extra={"partition": value})
    text = json.dumps(lines())
    assert "hunter2" not in text
    assert [each["partition"] for each in lines()[1::2]] == ["nan", 0.5]


class Mute:
    def __str__(self) -> str:
        raise ValueError("token=abc123")


@pytest.mark.parametrize(
    ("message", "values", "told"),
    [
        ("%d rows", ("password=hunter2",), "'%d rows', cannot be told: TypeError: %d format"),
        (Mute(), (), "'Mute', cannot be told: ValueError: token=***"),
    ],
)
@pytest.mark.parametrize("formatter", [JsonFormatter(), RedactingFormatter("%(message)s")])
def test_a_message_that_cannot_be_made_is_a_line_that_says_so(
    formatter: logging.Formatter, message: Any, values: Any, told: str
) -> None:
    record = logging.LogRecord("x", logging.INFO, "/a/b.py", 7, message, values, None)
    line = formatter.format(record)
    assert f"a message of /a/b.py:7, {told}" in line
    assert "hunter2" not in line
    assert "\n" not in line


def test_what_is_not_known_is_absent() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, "x", None, None)
    told = json.loads(JsonFormatter(lambda: {"query": None}).format(record))
    assert set(told) == {"time", "level", "logger", "message"}


_PROGRAM = """
import logging.config, sys, threading, warnings
from engine.logs.json_lines import log_as_json
log_as_json(sys.stderr)
warnings.warn("password=hunter2 is old")
def fail():
    raise ValueError("token=hunter2")
thread = threading.Thread(target=fail, name="reader")
thread.start()
thread.join()
class Torn:
    def __del__(self):
        raise KeyError("secret=hunter2")
torn = Torn()
del torn
logging.config.dictConfig({"version": 1, "root": {"level": "CRITICAL"}})
class Odd(OSError):
    def __str__(self):
        raise ValueError("password=hunter2")
raise Odd() from OSError("secret=hunter2")
"""


def test_what_python_writes_by_itself_is_json_too() -> None:
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)

    warned, of_thread, torn, uncaught = (json.loads(line) for line in ran.stderr.splitlines())
    assert (warned["level"], warned["logger"]) == ("WARNING", "py.warnings")
    assert "password=***" in warned["message"]
    assert (of_thread["level"], uncaught["level"]) == ("ERROR", "CRITICAL")
    assert "in reader, ValueError: token=***" in of_thread["message"]
    assert "KeyError: 'secret=***" in torn["message"]
    assert "Odd: its text cannot be had: ValueError" in uncaught["message"]
    assert "OSError: secret=***" in uncaught["trace"]
    assert "hunter2" not in ran.stderr
    assert ran.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "logs"),
    [
        (["replay", "{missing}", "--epoch", "0", "--spec", "{spec}"], "json"),
        (["explain", "{spec}"], "json"),
        (["explain", "{spec}", "--log-format", "json"], "text"),
    ],
)
def test_who_only_looks_at_a_query_logs_as_is_said(
    tmp_path: Path, arguments: list[str], logs: str
) -> None:
    document = {
        "name": "orders",
        "source": {"format": "rate"},
        "sink": {"format": "noop"},
        "checkpoint_location": str(tmp_path / "missing"),
        "log_format": logs,
    }
    spec = tmp_path / "query.json"
    spec.write_text(json.dumps(document))
    java = tmp_path / "bin" / "java"  # one that ends at once
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho \'version "17"\'\n[ "$1" = -version ]\n')
    java.chmod(0o755)
    names = {"missing": tmp_path / "missing", "spec": spec}
    command = ["-m", "engine", *(each.format(**names) for each in arguments)]
    ended = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = [json.loads(line) for line in ended.stderr.splitlines() if line.startswith("{")]
    assert ended.returncode != 0
    assert [each["query"] for each in told] == ["orders"], ended.stderr
    assert f"continuous {arguments[0]}:" in told[0]["message"]
