"""Why a query has failed, in words that people read."""

from __future__ import annotations

from engine.base.redaction import redact
from engine.errors import ContinuousError

_BEHIND_THE_REASON = ("\n\nJVM stacktrace:", "\n=== Streaming Query ===", "\n\tat ")
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
    text = f"{type(error).__name__}: {redact(text.strip())}"
    if len(text) > _SHOWN_CHARACTERS:  # what was raised stands at the end of a traceback
        half = _SHOWN_CHARACTERS // 2
        text = f"{text[:half]}\n...\n{text[-half:]}"
    return text
