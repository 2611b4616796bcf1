"""Writers' commit messages as JSON, so that a restart can finish an epoch with them.

A message is any object that a sink's ``write`` returned. It is stored as the first of these that
holds it completely::

    {"none":true}
    {"dataclass":"module:Class","fields":{"path":"a.parquet","digest":{"$bytes":"3q2+7w=="}}}
    {"pickle":"gASV..."}

Whoever can write a checkpoint must not gain code execution by it. So decoding loads nothing but
*record classes* (dataclasses, named tuples, enums, PySpark's ``WriterCommitMessage`` and its
subclasses) that are defined in the modules which the sink names, and the plain value types of
:data:`_VALUE_TYPES`; nothing else is ever looked up, imported or called. Dataclasses are filled in
without calling their constructor.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import importlib
import io
import math
import pickle
import uuid
from collections.abc import Collection
from typing import Any, ClassVar

from engine.base.json_text import JSON
from engine.errors import CheckpointCorruptError, CheckpointError

_VALUE_TYPES: dict[tuple[str, str], type] = {
    (value_type.__module__, value_type.__qualname__): value_type
    for value_type in (
        set,
        frozenset,
        bytearray,
        complex,
        collections.OrderedDict,
        collections.deque,
        datetime.date,
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        datetime.timezone,
        decimal.Decimal,
        uuid.UUID,
        uuid.SafeUUID,
    )
}


# What a writer returns that has nothing to say.
_EMPTY_MESSAGE = ("pyspark.sql.datasource", "WriterCommitMessage")


class _NotPlainError(Exception):
    """The value is more than JSON, bytes and dataclasses."""


def encode(message: object) -> dict[str, JSON]:
    """A message as a JSON object.

    :raises CheckpointError: it cannot be stored, or could not be loaded again; names its class.
    """
    if message is None:
        return {"none": True}
    if dataclasses.is_dataclass(message) and not isinstance(message, type):
        try:
            return {"dataclass": _class_name(type(message)), "fields": _fields(message)}
        except _NotPlainError:
            pass
    try:
        pickled = pickle.dumps(message, protocol=4)
    except Exception as exc:
        raise CheckpointError(
            f"The writer's commit message of class {type(message).__module__}."
            f"{type(message).__qualname__} cannot be stored in the checkpoint: {exc}.",
            hint="Make it a dataclass at the top level of a module, with plain values.",
        ) from exc
    return {"pickle": base64.b64encode(pickled).decode("ascii")}


def decode(data: dict[str, JSON], allowed_modules: Collection[str]) -> object:
    """The message that :func:`encode` was given.

    :param allowed_modules: modules, or packages with all that is below them, whose record classes
        may be loaded.
    :raises CheckpointCorruptError: it is torn, or names a class that is not allowed.
    """
    try:
        if data == {"none": True}:
            return None
        if data.keys() == {"dataclass", "fields"}:
            return _build(data["dataclass"], data["fields"], allowed_modules)
        if data.keys() == {"pickle"}:
            pickled = base64.b64decode(data["pickle"], validate=True)
            return _RestrictedUnpickler(io.BytesIO(pickled), allowed_modules).load()
    except CheckpointCorruptError:
        raise
    except Exception as exc:
        # A damaged pickle raises almost anything.
        raise CheckpointCorruptError(
            f"A writer's commit message cannot be read: {type(exc).__name__}: {exc}"
        ) from exc
    raise CheckpointCorruptError(f"A writer's commit message is of no known kind: {sorted(data)}")


# -- plain values ---------------------------------------------------------------------------------


def _plain(value: Any) -> JSON:
    # Exact types: a subclass (an IntEnum, say) would come back as something else.
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float and math.isfinite(value):
        return value
    if kind is list:
        return [_plain(item) for item in value]
    if kind is tuple:
        return {"$tuple": [_plain(item) for item in value]}
    if kind is bytes:
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if kind is dict and all(type(key) is str and not key.startswith("$") for key in value):
        return {key: _plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return {"$dataclass": _class_name(kind), "fields": _fields(value)}
    raise _NotPlainError


def _fields(record: Any) -> dict[str, JSON]:
    kind = type(record)
    names = [field.name for field in dataclasses.fields(record)]
    custom = {"__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__"}
    if any(custom.intersection(vars(base)) for base in kind.__mro__[:-1] if not _generated(base)):
        raise _NotPlainError
    if not set(getattr(record, "__dict__", ())).issubset(names):
        raise _NotPlainError
    try:
        return {name: _plain(getattr(record, name)) for name in names}
    except AttributeError:
        raise _NotPlainError from None


def _generated(kind: type) -> bool:
    """Whether ``@dataclass(slots=True)`` wrote the class's pickle methods."""
    return getattr(vars(kind).get("__getstate__"), "__module__", None) == dataclasses.__name__


def _value(data: JSON, allowed_modules: Collection[str]) -> Any:
    if isinstance(data, list):
        return [_value(item, allowed_modules) for item in data]
    if not isinstance(data, dict):
        return data
    if data.keys() == {"$tuple"}:
        return tuple(_value(item, allowed_modules) for item in data["$tuple"])
    if data.keys() == {"$bytes"}:
        return base64.b64decode(data["$bytes"], validate=True)
    if data.keys() == {"$dataclass", "fields"}:
        return _build(data["$dataclass"], data["fields"], allowed_modules)
    return {key: _value(item, allowed_modules) for key, item in data.items()}


def _build(name: str, fields: dict[str, JSON], allowed_modules: Collection[str]) -> Any:
    module, _, qualified_name = name.partition(":")
    kind = _record_class(module, qualified_name, allowed_modules)
    if not dataclasses.is_dataclass(kind):
        raise CheckpointCorruptError(f"{name} is not a dataclass.")
    expected = {field.name for field in dataclasses.fields(kind)}
    if fields.keys() != expected:
        raise CheckpointCorruptError(
            f"A stored {name} has the fields {sorted(fields)}, the class has {sorted(expected)}.",
            hint="Run the version of the sink that wrote it once, until its epoch is committed.",
        )
    record = object.__new__(kind)
    for field, value in fields.items():
        object.__setattr__(record, field, _value(value, allowed_modules))
    return record


def _class_name(kind: type) -> str:
    if "<locals>" in kind.__qualname__:
        raise _NotPlainError
    return f"{kind.__module__}:{kind.__qualname__}"


# -- what may be loaded ---------------------------------------------------------------------------


# The Python twin of pickle.Unpickler: only there can an opcode be refused.
class _RestrictedUnpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Any]] = pickle._Unpickler.dispatch.copy()

    def __init__(self, file: io.BytesIO, allowed_modules: Collection[str]) -> None:
        super().__init__(file)
        self._allowed_modules = allowed_modules

    def find_class(self, module: str, name: str, /) -> Any:
        value_type = _VALUE_TYPES.get((module, name))
        if value_type is not None:
            return value_type
        return _record_class(module, name, self._allowed_modules)

    def persistent_load(self, pid: Any) -> Any:
        raise CheckpointCorruptError("A writer's commit message refers to a persistent object.")

    def load_build(self) -> None:
        if isinstance(self.stack[-2], type):  # type: ignore[attr-defined]
            raise CheckpointCorruptError("A writer's commit message tries to change a class.")
        super().load_build()  # type: ignore[misc]

    dispatch[pickle.BUILD[0]] = load_build


def _record_class(module: str, qualified_name: str, allowed_modules: Collection[str]) -> type:
    """A class by name, if it is an allowed one."""
    if (module, qualified_name) == _EMPTY_MESSAGE:
        allowed_modules = (*allowed_modules, module)
    if not _is_allowed(module, allowed_modules):
        raise _refused(module, qualified_name, "its module is not one that the sink names")
    try:
        found: Any = importlib.import_module(module)
        for part in qualified_name.split("."):
            # Through the namespace of modules and classes only: no descriptor runs.
            found = vars(found)[part]
    except (ImportError, KeyError, TypeError) as exc:
        raise _refused(module, qualified_name, f"it is not there: {exc!r}") from exc
    if not isinstance(found, type) or not _is_allowed(found.__module__, allowed_modules):
        raise _refused(module, qualified_name, "it is no class defined there")
    if not _is_record(found):
        raise _refused(
            module,
            qualified_name,
            "it is no dataclass, named tuple, enum or WriterCommitMessage",
        )
    return found


def _is_allowed(module: str, allowed_modules: Collection[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in allowed_modules)


def _is_record(kind: type) -> bool:
    if dataclasses.is_dataclass(kind) or issubclass(kind, enum.Enum):
        return True
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return True
    # By name: this package does not import pyspark.
    return any((base.__module__, base.__qualname__) == _EMPTY_MESSAGE for base in kind.__mro__)


def _refused(module: str, name: str, reason: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"A stored commit message wants the class {module}.{name}, which is not loaded: {reason}.",
        hint="If the sink's messages really are of that class, the sink has to name its module.",
    )
