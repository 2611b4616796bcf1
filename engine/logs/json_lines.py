"""Logs as JSON, an object per line, without secrets::

    {"time":"2026-01-31T23:59:59.123Z","level":"WARNING","logger":"engine.task.bad_records",
     "message":"...","query":"orders","query_id":"...","run":"...","generation":3,"epoch":17,
     "partition":2}

A field that is not known is absent. ``epoch`` and ``partition`` are those that the line is about:
an error's own; else those of the task, or, of the driver, the epoch that commits next. ``trace`` is
the traceback of an error.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TextIO

from engine.base.moments import iso_timestamp
from engine.redaction.logs import describe_trace, redact, tellable, text_of
from engine.sinks.epoch_context import EpochContext

if TYPE_CHECKING:
    from engine.task.spec import TaskSpec

TEXT, JSON = "text", "json"
FORMATS: Final = (TEXT, JSON)
SETTING: Final = "spark.continuous.logFormat"
"""Of the Spark session: ``json`` lets the tasks log so."""
_ABOUT: Final = ("epoch", "partition")


class JsonFormatter(logging.Formatter):
    """:param fields: what each line says beside; called for each, on any thread: it takes no lock.
    Changed when more is known.
    """

    def __init__(self, fields: Callable[[], Mapping[str, Any]] = dict) -> None:
        super().__init__()
        self.fields = fields

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else getattr(record, "failure", None)
        found = {
            "time": iso_timestamp(round(record.created * 1000)),
            "level": record.levelname,
            "logger": record.name,
            "message": tellable(record).getMessage(),
            **self.fields(),
        }
        context = EpochContext.get()
        if context is not None:
            found["epoch"] = context.epoch
        for name in _ABOUT:
            for teller in (error, record):
                value = getattr(teller, name, None)
                if value is not None:
                    found[name] = value
        if record.exc_info and error is not None:
            found["trace"] = describe_trace(error)
        known = {name: _told(value) for name, value in found.items() if value is not None}
        return json.dumps(known)


def _told(value: Any) -> Any:
    """A number that JSON has, or a text without secrets."""
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if is_number else redact(str(value))


def log_as_json(stream: TextIO, fields: Callable[[], Mapping[str, Any]] = dict) -> JsonFormatter:
    """Let this process log as JSON from now on, in place of what it did; again: with other fields.
    Likewise what Python writes by itself: warnings, and errors that nobody has caught.

    :returns: what each line is made by.
    """
    handler = logging.StreamHandler(stream)
    formatter = JsonFormatter(fields)
    handler.setFormatter(formatter)
    logging.getLogger().handlers[:] = [handler]
    logging.captureWarnings(True)
    uncaught = _Uncaught(handler)
    sys.excepthook = uncaught.of_program
    sys.unraisablehook = uncaught.of_nobody
    threading.excepthook = uncaught.of_thread
    return formatter


class _Uncaught:
    """What Python would write as plain text. Written by our own handler, whatever the program has
    made of its loggers meanwhile: else nobody would hear of it."""

    def __init__(self, handler: logging.Handler) -> None:
        self._handler = handler

    def of_program(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if issubclass(kind, Exception):
            self._tell(logging.CRITICAL, "nobody has caught", error)
        else:
            sys.__excepthook__(kind, error, trace)

    def of_thread(self, given: threading.ExceptHookArgs) -> None:
        if given.exc_value is not None and not isinstance(given.exc_value, SystemExit):
            name = "a thread" if given.thread is None else given.thread.name
            self._tell(logging.ERROR, f"nobody has caught, in {name},", given.exc_value)

    def of_nobody(self, given: Any) -> None:
        if given.exc_value is not None:
            told = given.err_msg or "Exception ignored in"
            self._tell(logging.ERROR, f"{told} {type(given.object).__name__}:", given.exc_value)

    def _tell(self, level: int, text: str, error: BaseException) -> None:
        about = (type(error), error, error.__traceback__)
        told = f"{text} {type(error).__name__}: {text_of(error)}"
        record = logging.LogRecord(__name__, level, __file__, 0, told, (), about)
        self._handler.handle(record)


def logs_json() -> bool:
    """Whether this process logs as JSON."""
    return any(isinstance(each.formatter, JsonFormatter) for each in logging.getLogger().handlers)


def log_task_as_json(spec: TaskSpec) -> None:
    """Let a worker's process, which runs one task at a time, log as JSON."""
    numbers = spec.numbers
    fields = {
        "query": spec.query,
        "query_id": spec.identity.query_id,
        "run": spec.run_id,
        "generation": spec.identity.generation,
        "partition": numbers[0] if len(numbers) == 1 else None,
        "task": spec.named,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    log_as_json(sys.stderr, lambda: known)
