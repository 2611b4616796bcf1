"""``@task.continuous_query``: a query written as a function in the DAG file.

::

    @task.continuous_query(checkpoint_location="/data/checkpoints/delays", supervise=True)
    def delays(spark, path):
        from engine import write_stream

        stream = spark.readStream.format("tail").load(path)
        return write_stream(stream).format("parquet").option("path", "/data/delays")

    delays(path="/data/flights")

The query's process knows nothing of Airflow and does not read the DAG file: the function's source
is written to a module of its own, in a file that only its owner can read, with the arguments of the
call as JSON. So the function imports what it needs itself, gets nothing of Airflow's context that
the call does not hand it, as ``delays(path="/data/{{ ds }}")`` does, and an argument is no place
for a secret: it comes with a connection, by ``connections={"kafka_main": "kafka"}`` and
``engine.connection_options("kafka_main")``, or with the environment of the query.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory
from airflow.sdk.definitions.context import KNOWN_CONTEXT_KEYS

from airflow_provider_continuous.operators.query import (
    RunContinuousQueryOperator,
    StartContinuousQueryOperator,
)
from airflow_provider_continuous.operators.query.base import QueryStartingOperator
from airflow_provider_continuous.tasks.arguments import flag
from engine.errors import ConfigError

if TYPE_CHECKING:
    from airflow_provider_continuous.hooks.query import ContinuousQueryHook

_ENTRY = "query_of_this_task"
_MODULE = '''"""Written by Airflow for a task with @task.continuous_query."""

from __future__ import annotations

{source}

def {entry}(spark):
    import json

    args, kwargs = json.loads({arguments!r})
    return {function}(spark, *args, **kwargs)
'''


class _DecoratedQuery(DecoratedOperator):
    """The function's part of the operator.

    :param settings: further keys of the specification, such as ``conf`` (templated).
    """

    custom_operator_name = "@task.continuous_query"
    # The operators' own come behind, see the classes below.
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, "settings")

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        settings: Mapping[str, Any] | None = None,
        query_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            python_callable=_without_session(python_callable),
            query=f"{python_callable.__module__}:{python_callable.__name__}",
            query_name=query_name,
            **kwargs,
        )
        self.settings = settings
        self._check_arguments()

    def _check_arguments(self) -> None:
        """:raises ValueError: Airflow would fill one in where it calls the function; here a process
        does that knows nothing of Airflow, and it would be None."""
        signature = inspect.signature(self.python_callable)
        handed = signature.bind_partial(*self.op_args, **self.op_kwargs).arguments
        for name in signature.parameters:
            if name in KNOWN_CONTEXT_KEYS and name not in handed:
                function = self.python_callable.__name__
                raise ValueError(
                    f"{self.task_id}: {name} is of Airflow's context, of which the process of a "
                    f"query knows nothing. Hand over what is needed of it, as "
                    f'{function}({name}="{{{{ ... }}}}"), or take the parameter away.'
                )

    def _document(self, hook: ContinuousQueryHook, spec: Any = None) -> dict[str, Any]:
        operator = cast("QueryStartingOperator", self)
        settings = {"name": self.python_callable.__name__, **(self.settings or {})}
        location = operator.checkpoint_location or settings.get("checkpoint_location")
        name = operator.query_name or settings["name"]
        module = _write_module(hook.code_folder(location, name), self._source())
        return hook.specification(
            {
                **settings,
                "python_path": [str(module.parent), *settings.get("python_path", [])],
            },
            query=f"{module.stem}:{_ENTRY}",
            **operator._overrides(),
        )

    def _source(self) -> str:
        try:
            arguments = json.dumps([list(self.op_args), dict(self.op_kwargs)], sort_keys=True)
        except TypeError as error:
            raise ConfigError(
                f"An argument of {self.python_callable.__name__} cannot be handed to its query: "
                f"{error}.",
                hint="Arguments are written as JSON: text, numbers, lists and dicts.",
            ) from error
        return _MODULE.format(
            source=self.get_python_source(),  # type: ignore[no-untyped-call]
            entry=_ENTRY,
            arguments=arguments,
            function=self.python_callable.__name__,
        )


class _DecoratedStart(_DecoratedQuery, StartContinuousQueryOperator):
    template_fields: Sequence[str] = (
        *_DecoratedQuery.template_fields,
        *StartContinuousQueryOperator.template_fields,
    )
    template_fields_renderers = {  # noqa: RUF012  # Airflow's declaration
        **DecoratedOperator.template_fields_renderers,
        "settings": "json",
    }


class _DecoratedRun(_DecoratedQuery, RunContinuousQueryOperator):
    template_fields: Sequence[str] = (
        *_DecoratedQuery.template_fields,
        *RunContinuousQueryOperator.template_fields,
    )
    template_fields_renderers = _DecoratedStart.template_fields_renderers


def continuous_query_task(
    python_callable: Callable[..., Any] | None = None,
    multiple_outputs: bool | None = None,
    supervise: bool = False,
    **kwargs: Any,
) -> TaskDecorator:
    """Make a task of a function that takes the SparkSession and returns an unstarted query.

    :param python_callable: its first parameter is the SparkSession, the others are those of the
        call in the DAG (templated). It returns ``write_stream(...)`` without ``start()``.
    :param supervise: stay with the query, as ``RunContinuousQueryOperator``; else only start it, as
        ``StartContinuousQueryOperator``.
    :param kwargs: of that operator, but ``spec`` and ``query``; and ``settings``, further keys of
        the specification, such as ``conf``.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=_DecoratedRun if flag("supervise", supervise) else _DecoratedStart,
        **kwargs,
    )


def _without_session(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function as a DAG calls it: without its first parameter."""
    signature = inspect.signature(inspect.unwrap(function))
    _, *others = signature.parameters.values()

    @functools.wraps(inspect.unwrap(function))
    def called(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    called.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return called


def _write_module(folder: Path, source: str) -> Path:
    """Write a module whose name tells its content, so writing it again changes nothing."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"query_{hashlib.sha256(source.encode()).hexdigest()[:16]}.py"
    descriptor, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(source)
    Path(temporary).replace(path)
    return path
