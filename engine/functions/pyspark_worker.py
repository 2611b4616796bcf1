"""PySpark's own worker code, called in this process: what a function may return, what becomes of a
wrong type, and every error text are then Spark's by construction.

Spark's executor describes functions to the Python worker, and so does :func:`load`. PySpark 4.3 has
objects for that, earlier versions read a stream::

    int functions, and for each of them
      int arguments, and for each of them: int position [, bool named [, int length, UTF-8 name]]
      int commands in the chain, and for each of them: int length, pickle of (function, type)
      [long result id]

and of a table function::

    int arguments, and for each of them: as above
    int columns of PARTITION BY
    bool analyzed [, int length, pickle of what ``analyze`` has returned]
    int length, pickle of the class
    int length, JSON of the type of a row
    int length, UTF-8 name

:data:`_VERSIONS` has what differs: in PySpark 4.1 the stream begins with the settings, arguments of
functions over whole batches have no names, and there is no result id.

Source: Spark's ``PythonUDFRunner.writeUDFs`` and ``PythonUDTFRunner``, ``pyspark.worker`` with
``read_udfs`` and ``read_udtf``, and since 4.3 ``pyspark.worker_message``.
"""

from __future__ import annotations

import inspect
import io
import json
import socket
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from engine.errors import ConfigError
from engine.pipeline.pipeline import PythonFunction

_BATCHED, _ARROW_BATCHED, _MAP_PANDAS, _MAP_ARROW, _GROUP_STATE = 100, 101, 205, 207, 208
"""``PythonEvalType``."""
_ARROW_TABLE = 301
"""Of a table function whose values travel as Arrow."""
_START_ARROW_STREAM = 4
"""So many bytes announce a stream of Arrow batches that a worker sends."""


def unknown_version() -> str | None:
    """Why this PySpark's worker code cannot be used, None if it can."""
    import pyspark

    if _parameters() in _VERSIONS:
        return None
    return f"Python functions need PySpark 4.1, 4.2 or 4.3; this is {pyspark.__version__}"


def _parameters() -> tuple[str, ...]:
    from pyspark import worker

    readers = worker.read_udfs, worker.read_udtf
    return tuple(",".join(inspect.signature(reader).parameters) for reader in readers)


def _version() -> _Version:
    """To be called on the executor."""
    if reason := unknown_version():
        raise ConfigError(
            f"{reason}, on {socket.gethostname()}.", hint="Install the driver's version there."
        )
    return _VERSIONS[_parameters()]


@dataclass(frozen=True)
class Worker:
    """Functions that are ready to be called.

    :ivar call: from an iterator of what the deserializer makes to one of what the serializer takes.
    """

    call: Callable[[Iterator[Any]], Iterator[Any]]
    deserializer: Any
    serializer: Any


@dataclass(frozen=True)
class _Task:
    """What a worker is told about the functions that it is to run."""

    eval_type: int
    functions: Sequence[PythonFunction]
    conf: Mapping[str, str]
    input_type: str  # JSON; of a function with state the type of that
    result_type: str = ""  # JSON; of the rows of a table function


@dataclass(frozen=True)
class _Version:
    """From what a worker is told to the arguments of its readers that come behind the first.

    :ivar functions: of ``read_udfs``; ``table_function`` is of ``read_udtf``.
    """

    functions: Callable[[_Task], tuple[Any, ...]]
    table_function: Callable[[_Task], tuple[Any, ...]]


def load(
    eval_type: int,
    functions: Sequence[PythonFunction],
    conf: Mapping[str, str],
    input_type: Mapping[str, Any],
) -> Worker:
    """Unpickle functions; to be called on the executor.

    :param input_type: the arguments' ``StructType`` as parsed JSON; for a function over groups with
        state, that of the state.
    :raises ConfigError: the executor's PySpark is none that is known.
    """
    version = _version()
    from pyspark import worker
    from pyspark.worker_util import pickleSer

    read: Any = worker.read_udfs  # which is not annotated
    task = _Task(eval_type, functions, conf, json.dumps(input_type))
    function, _, deserializer, serializer = read(pickleSer, *version.functions(task))
    return Worker(lambda batches: iter(function(0, batches)), deserializer, serializer)


def unpickled(function: PythonFunction) -> tuple[Any, Any]:
    """What the user wrote, and the type that it returns; to be called on the executor."""
    from pyspark.worker_util import pickleSer

    (command,) = function.commands
    loads: Any = pickleSer.loads  # which is not annotated
    call, returned = loads(command)
    return call, returned


def load_table_function(
    eval_type: int,
    function: PythonFunction,
    conf: Mapping[str, str],
    input_type: Mapping[str, Any],
    result_type: Any,
) -> Worker:
    """Unpickle a table function and make an instance of its class; to be called on the executor.

    :param input_type: see :func:`load`; ``result_type`` is that of the rows that it makes.
    :raises ConfigError: the executor's PySpark is none that is known.
    """
    version = _version()
    from pyspark import worker
    from pyspark.worker_util import pickleSer

    read: Any = worker.read_udtf  # which is not annotated
    task = _Task(eval_type, [function], conf, json.dumps(input_type), json.dumps(result_type))
    mapper, _, deserializer, serializer = read(pickleSer, *version.table_function(task))
    return Worker(lambda rows: iter(mapper(0, rows)), deserializer, serializer)


# -- versions ---------------------------------------------------------------------------------


def _for_4_1(task: _Task) -> tuple[Any, ...]:
    parts = []
    if task.eval_type != _BATCHED:
        parts.append(_written_conf(task.conf))
    if task.eval_type in (_ARROW_BATCHED, _GROUP_STATE):
        parts.append(_text(task.input_type))
    parts.append(b"\0")  # no profiler
    named = task.eval_type not in (_MAP_PANDAS, _MAP_ARROW, _GROUP_STATE)
    parts.append(_written(task.functions, named=named, identified=False))
    return io.BytesIO(b"".join(parts)), task.eval_type


def _table_function_for_4_1(task: _Task) -> tuple[Any, ...]:
    parts = []
    if task.eval_type == _ARROW_TABLE:
        parts += [_written_conf(task.conf), _text(task.input_type)]
    parts.append(_written_table_function(task))
    return io.BytesIO(b"".join(parts)), task.eval_type


def _for_4_2(task: _Task) -> tuple[Any, ...]:
    written = _written(task.functions, named=True, identified=True)
    return io.BytesIO(written), task.eval_type, *_conf_for_4_2(task)


def _table_function_for_4_2(task: _Task) -> tuple[Any, ...]:
    return io.BytesIO(_written_table_function(task)), task.eval_type, *_conf_for_4_2(task)


def _conf_for_4_2(task: _Task) -> tuple[Any, Any]:
    from pyspark import worker

    return (
        worker.RunnerConf(io.BytesIO(_written_conf(task.conf))),
        worker.EvalConf(io.BytesIO(_written_conf({"input_type": task.input_type}))),
    )


def _for_4_3(task: _Task) -> tuple[Any, ...]:
    message: Any = import_module("pyspark.worker_message")  # which 4.2 does not have
    described = [
        message.UDFInfo(
            udfs=[memoryview(command) for command in function.commands],
            result_id=number,
            **_arguments_for_4_3(function),
        )
        for number, function in enumerate(task.functions)
    ]
    return described, task.eval_type, *_conf_for_4_3(task)


def _table_function_for_4_3(task: _Task) -> tuple[Any, ...]:
    message: Any = import_module("pyspark.worker_message")
    (function,) = task.functions
    (command,) = function.commands
    described = message.UDTFInfo(
        partition_child_indexes=[],
        pickled_analyze_result=None if function.analyzed is None else memoryview(function.analyzed),
        handler=memoryview(command),
        return_type=task.result_type,
        name=function.name,
        **_arguments_for_4_3(function),
    )
    return described, task.eval_type, *_conf_for_4_3(task)


def _arguments_for_4_3(function: PythonFunction) -> dict[str, Any]:
    arguments = list(zip(function.keywords, function.arguments, strict=True))
    return {
        "args": [position for keyword, position in arguments if keyword is None],
        "kwargs": {keyword: position for keyword, position in arguments if keyword},
    }


def _conf_for_4_3(task: _Task) -> tuple[Any, Any]:
    from pyspark import worker

    runner_conf: Any = worker.RunnerConf
    eval_conf: Any = worker.EvalConf
    return runner_conf(dict(task.conf)), eval_conf({"input_type": task.input_type})


_VERSIONS: Mapping[tuple[str, ...], _Version] = {
    ("pickleSer,infile,eval_type",) * 2: _Version(_for_4_1, _table_function_for_4_1),
    ("pickleSer,infile,eval_type,runner_conf,eval_conf",) * 2: _Version(
        _for_4_2, _table_function_for_4_2
    ),
    (
        "pickleSer,udf_info_list,eval_type,runner_conf,eval_conf",
        "pickleSer,udtf_info,eval_type,runner_conf,eval_conf",
    ): _Version(_for_4_3, _table_function_for_4_3),
}
"""By the parameters of ``read_udfs`` and ``read_udtf``, which tell the versions apart."""


# -- broadcasts and bytes ---------------------------------------------------------------------


def provide_broadcasts(broadcasts: Mapping[int, bytes]) -> None:
    """Make broadcast variables known to functions that are about to be unpickled."""
    from pyspark.core.broadcast import Broadcast, _broadcastRegistry

    for number, pickled in broadcasts.items():
        if number not in _broadcastRegistry:
            with tempfile.NamedTemporaryFile(prefix="broadcast-", delete=False) as file:
                file.write(pickled)
            _broadcastRegistry[number] = Broadcast(path=str(Path(file.name)))


def _written(functions: Sequence[PythonFunction], *, named: bool, identified: bool) -> bytes:
    parts = [_int(len(functions))]
    for number, function in enumerate(functions):
        parts.append(_written_arguments(function, named=named))
        parts.append(_int(len(function.commands)))
        parts += [_int(len(command)) + command for command in function.commands]
        if identified:
            parts.append(struct.pack(">q", number))
    return b"".join(parts)


def _written_arguments(function: PythonFunction, *, named: bool) -> bytes:
    parts = [_int(len(function.arguments))]
    for position, keyword in zip(function.arguments, function.keywords, strict=True):
        parts.append(_int(position))
        if named:
            parts.append(b"\0" if keyword is None else b"\1" + _text(keyword))
    return b"".join(parts)


def _written_table_function(task: _Task) -> bytes:
    (function,) = task.functions
    (command,) = function.commands
    analyzed = function.analyzed
    parts = [
        _written_arguments(function, named=True),
        _int(0),  # columns of PARTITION BY
        b"\0" if analyzed is None else b"\1" + _int(len(analyzed)) + analyzed,
        _int(len(command)) + command,
        _text(task.result_type),
        _text(function.name),
    ]
    return b"".join(parts)


def _written_conf(conf: Mapping[str, str]) -> bytes:
    parts = [_text(key) + _text(value) for key, value in conf.items()]
    return _int(len(parts)) + b"".join(parts)


def _int(value: int) -> bytes:
    return struct.pack(">i", value)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _int(len(encoded)) + encoded


def sent_batches(dump_stream: Callable[[Iterator[Any], io.BytesIO], None], item: Any) -> bytes:
    """The Arrow stream that a worker would send for one result.

    :param dump_stream: of its serializer.
    """
    buffer = io.BytesIO()
    dump_stream(iter([item]), buffer)
    return buffer.getvalue()[_START_ARROW_STREAM:]
