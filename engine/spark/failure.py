"""Why a query has failed, in words that people read."""

from __future__ import annotations

import re

from engine.errors import ContinuousError
from engine.redaction.logs import redact

_BEHIND_THE_REASON = ("\n\nJVM stacktrace:", "\n=== Streaming Query ===", "\n\tat ")
_OF_JAVA = re.compile(r"An error occurred while calling [\w.:]+\n: ")
"""Before what Java says, of an error that PySpark has no class for."""
_SHOWN_CHARACTERS = 2_000


def describe_error(error: BaseException) -> str:
    """What went wrong. Of Spark's errors the message, with the traceback of the user's Python and
    without what follows it: the JVM's stack, the query's plan. What looks like a secret is
    hidden."""
    if isinstance(error, ContinuousError):
        return str(error)
    text = str(error)
    for mark in _BEHIND_THE_REASON:
        text = text.partition(mark)[0]
    of_java = _OF_JAVA.match(text)
    said = f"{type(error).__name__}: {text.strip()}" if of_java is None else text[of_java.end() :]
    text = redact(said.strip())
    if len(text) > _SHOWN_CHARACTERS:  # what was raised stands at the end of a traceback
        half = _SHOWN_CHARACTERS // 2
        text = f"{text[:half]}\n...\n{text[-half:]}"
    return text


def gist(error: Exception) -> str:
    """The first line of Spark's message, and what the Python worker raised if it is told there."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    raised = re.search(r"^(?!org\.|java\.)[A-Za-z_][\w.]*(?:Error|Exception|Exit)\b.*$", text, re.M)
    return lines[0] if raised is None else f"{lines[0]} {raised.group().strip()}"
