"""Which errors end a task for good, and which ones Airflow may retry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_continuous.compat import AirflowException, AirflowFailException
from engine.errors import CheckpointError, ContinuousError


class QueryEndedError(AirflowFailException):
    """The query has ended, and what the task waits for will not come by itself."""


class QueryFailedError(AirflowException):
    """The query that a task has started, or adopted, has failed. A retry starts it again."""


class WaitTimeoutError(AirflowException):
    """What the task waits for did not come in time. A retry waits again."""


def is_final(error: ContinuousError) -> bool:
    """Tell whether a retry cannot help.

    ``CheckpointError`` itself, unlike its kinds, is storage that cannot be reached now.
    """
    return not error.retryable and type(error) is not CheckpointError


@contextmanager
def final_errors() -> Iterator[None]:
    """Turn the engine's final errors into ``AirflowFailException``: the task fails for good.

    Everything else passes through, and Airflow retries it as the task says.
    """
    try:
        yield
    except ContinuousError as error:
        if is_final(error):
            raise AirflowFailException(str(error)) from error
        raise
