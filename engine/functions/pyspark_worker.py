"""PySpark's own worker code, called in this process: what a function may return, what becomes of a
wrong type, and every error text are then Spark's by construction.

Spark's executor writes this to the Python worker, and so does :func:`load`, into a buffer::

    int functions, and for each of them
      int arguments, and for each of them: int position, bool named [, int length, UTF-8 name]
      int commands in the chain, and for each of them: int length, pickle of (function, type)
      long result id

Source: Spark's ``PythonUDFRunner.writeUDFs`` and ``pyspark.worker.read_udfs``.
"""

from __future__ import annotations

import inspect
import io
import json
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.pipeline.pipeline import PythonFunction

_KNOWN_PARAMETERS = ("pickleSer", "infile", "eval_type", "runner_conf", "eval_conf")
_START_ARROW_STREAM = 4
"""So many bytes announce a stream of Arrow batches that a worker sends."""


def unknown_version() -> str | None:
    """Why this PySpark's worker code cannot be used, None if it can."""
    import pyspark
    from pyspark import worker

    found = tuple(inspect.signature(worker.read_udfs).parameters)
    if found == _KNOWN_PARAMETERS:
        return None
    return f"Python functions need PySpark 4.2; this is {pyspark.__version__}"


@dataclass(frozen=True)
class Worker:
    """Functions that are ready to be called.

    :ivar call: from an iterator of what the deserializer makes to one of what the serializer takes.
    """

    call: Callable[[Iterator[Any]], Iterator[Any]]
    deserializer: Any
    serializer: Any


def load(
    eval_type: int,
    functions: Sequence[PythonFunction],
    conf: Mapping[str, str],
    input_type: Mapping[str, Any],
) -> Worker:
    """Unpickle functions; to be called on the executor.

    :param input_type: the arguments' ``StructType`` as parsed JSON.
    """
    from pyspark import worker
    from pyspark.worker_util import pickleSer

    read: Any = worker.read_udfs  # which is not annotated
    function, _, deserializer, serializer = read(
        pickleSer,
        io.BytesIO(_written(functions)),
        eval_type,
        worker.RunnerConf(io.BytesIO(_written_conf(conf))),
        worker.EvalConf(io.BytesIO(_written_conf({"input_type": json.dumps(input_type)}))),
    )
    return Worker(lambda batches: iter(function(0, batches)), deserializer, serializer)


def provide_broadcasts(broadcasts: Mapping[int, bytes]) -> None:
    """Make broadcast variables known to functions that are about to be unpickled."""
    from pyspark.core.broadcast import Broadcast, _broadcastRegistry

    for number, pickled in broadcasts.items():
        if number not in _broadcastRegistry:
            with tempfile.NamedTemporaryFile(prefix="broadcast-", delete=False) as file:
                file.write(pickled)
            _broadcastRegistry[number] = Broadcast(path=str(Path(file.name)))


def _written(functions: Sequence[PythonFunction]) -> bytes:
    parts = [_int(len(functions))]
    for number, function in enumerate(functions):
        parts.append(_int(len(function.arguments)))
        for position, keyword in zip(function.arguments, function.keywords, strict=True):
            parts += [_int(position), b"\0" if keyword is None else b"\1" + _text(keyword)]
        parts.append(_int(len(function.commands)))
        parts += [_int(len(command)) + command for command in function.commands]
        parts.append(struct.pack(">q", number))
    return b"".join(parts)


def _written_conf(conf: Mapping[str, str]) -> bytes:
    parts = [_text(key) + _text(value) for key, value in conf.items()]
    return _int(len(parts)) + b"".join(parts)


def _int(value: int) -> bytes:
    return struct.pack(">i", value)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _int(len(encoded)) + encoded


def sent_batches(worker: Worker, item: Any) -> bytes:
    """The Arrow stream that a worker would send for one result."""
    buffer = io.BytesIO()
    worker.serializer.dump_stream(iter([item]), buffer)
    return buffer.getvalue()[_START_ARROW_STREAM:]
