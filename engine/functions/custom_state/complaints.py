"""What Spark says of a processor that does what it may not, as its Python side raises it.

Source: Spark's ``StateStoreErrors``; PySpark's ``StatefulProcessorApiClient``.
"""

from __future__ import annotations

from pyspark.errors import PySparkRuntimeError

from engine.errors import ConfigError


def wrong_state(doing: str, operation: str, state: str) -> PySparkRuntimeError:
    """An operation at the wrong time, e.g. the declaration of a variable outside of ``init``.

    :param doing: how PySpark begins the text.
    """
    return PySparkRuntimeError(
        f"{doing}: [STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE] "
        f"Failed to perform stateful processor operation={operation} with invalid handle "
        f"state={state}. SQLSTATE: 42802"
    )


def no_timers(doing: str, operation: str) -> PySparkRuntimeError:
    """A timer in time mode ``None``."""
    return PySparkRuntimeError(
        f"{doing}: [STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE] Failed to "
        f"perform stateful processor operation={operation} with invalid timeMode=None. "
        "SQLSTATE: 42802"
    )


def empty_list(name: str) -> PySparkRuntimeError:
    """A list of state that is to have no items."""
    return PySparkRuntimeError(
        "Error updating value state: [ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Illegal value "
        f"provided to the State Store Cannot write empty list values to State Store for StateName "
        f"{name}. SQLSTATE: 42601"
    )


def duplicate_variable(name: str) -> PySparkRuntimeError:
    """Two variables of one name."""
    return PySparkRuntimeError(
        "[STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED] State variable with name "
        f"{name} has already been defined in the StatefulProcessor. SQLSTATE: 42802"
    )


def ttl_without_processing_time(name: str, time_mode: str) -> PySparkRuntimeError:
    """A time to live in another time mode."""
    return PySparkRuntimeError(
        "[STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL] Cannot use TTL for state="
        f"{name} in timeMode={time_mode}, use TimeMode.ProcessingTime() instead. SQLSTATE: 42802"
    )


def ttl_not_positive(name: str) -> PySparkRuntimeError:
    """A time to live below zero."""
    return PySparkRuntimeError(
        "[STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE] TTL duration must be greater than "
        f"zero for State store operation=update on state={name}. SQLSTATE: 42802"
    )


def other_variable(name: str) -> ConfigError:
    """``init`` does not do the same wherever it runs."""
    return ConfigError(
        f"init() declares the state variable {name} in another way on an executor than it did on "
        "the driver, or not at all there.",
        hint="Let it declare the same variables, with the same schemas, each time.",
    )


def no_key() -> PySparkRuntimeError:
    """State or a timer where no key is looked at."""
    return PySparkRuntimeError(
        "Implicit key not found in state store: state and timers are those of a key, and there is "
        "none in init() and close()"
    )
