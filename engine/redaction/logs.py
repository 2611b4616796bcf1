"""Keeps secrets out of what people read: records in errors, and tracebacks in logs.

What is hidden, :func:`redact`, is told by :mod:`engine.redaction.texts`. Errors of the engine hide
it by themselves as soon as they are made (:class:`engine.errors.ContinuousError`), and so the
lease, status, progress and Airflow have none; what other errors say passes through here.
"""

from __future__ import annotations

import logging
import sys
import traceback
from copy import copy

from engine.redaction.texts import HIDDEN, SECRET_NAME, redact

__all__ = [
    "HIDDEN",
    "SECRET_NAME",
    "RedactingFormatter",
    "describe_trace",
    "log_failure",
    "redact",
    "shown",
    "tellable",
    "text_of",
]
_SHOWN_CHARACTERS = 200


def shown(text: str) -> str:
    """A record for an error message: redacted, and cut to a length that people read."""
    # Redacted first: a cut in the middle of a secret's name would hide the name, not the secret.
    clean = redact(text)
    return clean if len(clean) <= _SHOWN_CHARACTERS else f"{clean[:_SHOWN_CHARACTERS]}..."


def describe_trace(error: BaseException) -> str:
    """The traceback of an error and of its causes, redacted."""
    return redact("".join(traceback.format_exception(error)).rstrip())


def log_failure(logger: logging.Logger, text: str, *values: object) -> None:
    """As ``logger.exception``, without the secrets of the traceback."""
    error = sys.exc_info()[1]
    assert error is not None, "called where an error was caught"
    logger.error(f"{text}\n%s", *values, describe_trace(error), extra={"failure": error})


def tellable(record: logging.LogRecord) -> logging.LogRecord:
    """The record; of one whose message cannot be made, another that says so. Else logging itself
    would write several lines of plain text, with all that the message was to be made of."""
    try:
        record.getMessage()
    except Exception as exc:
        message = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        told = copy(record)
        told.msg = (
            f"a message of {record.pathname}:{record.lineno}, {message!r}, cannot be told: "
            f"{type(exc).__name__}: {text_of(exc)}"
        )
        told.args = None
        return told
    return record


def text_of(error: BaseException) -> str:
    """What an error says of itself, whatever it is."""
    try:
        return str(error)
    except Exception as exc:
        return f"its text cannot be had: {type(exc).__name__}"


class RedactingFormatter(logging.Formatter):
    """Redacts whole lines, whoever has logged them, with their tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(tellable(record)))
