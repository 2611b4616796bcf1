"""What people read of an error."""

from __future__ import annotations

from engine.errors import ConfigError
from engine.spark.failure import describe_error

SPARKS = """[STREAM_FAILED] Query [id = 1] terminated: Traceback (most recent call last):
  File "query.py", line 3, in check
ValueError: three is too many, token=abc
=== Streaming Query ===
Identifier: [id = 1]

JVM stacktrace:
org.apache.spark.sql.streaming.StreamingQueryException
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.run"""


def test_sparks_errors_come_with_the_users_traceback_and_without_the_rest() -> None:
    assert describe_error(RuntimeError(SPARKS)) == (
        "RuntimeError: [STREAM_FAILED] Query [id = 1] terminated: "
        "Traceback (most recent call last):\n"
        '  File "query.py", line 3, in check\n'
        "ValueError: three is too many, token=***"
    )


def test_the_stack_alone_is_cut_as_well() -> None:
    error = RuntimeError("Job aborted.\n\tat org.apache.spark.rdd.RDD\n\tat java.lang.Thread")
    assert describe_error(error) == "RuntimeError: Job aborted."


def test_a_long_one_keeps_its_beginning_and_what_was_raised() -> None:
    text = describe_error(RuntimeError("begin" + "x" * 9_000 + "ValueError: three"))
    assert text.startswith("RuntimeError: begin")
    assert text.endswith("ValueError: three")
    assert len(text) < 2_100


def test_our_own_errors_are_told_whole() -> None:
    assert describe_error(ConfigError("No sink.", hint="Name one.")) == "No sink. Name one."
