"""Writers' commit messages as lines of JSON, so that a restart can finish an epoch with them.

A message is any object that a sink's ``write`` returned. It is stored as the first of these that
holds it completely::

    {"none":true}
    {"files":{"files":[{"path":"file:///out/part-0.parquet","size":412}]}}    a type of the sink
    {"sunk":{"written":{"files":{...}},"dead_letters":{"none":true}}}         two messages in one
    {"letters":{"files":{...}}}                                                the second alone
    {"dataclass":"module:Class","fields":{"path":"a.parquet","digest":{"$bytes":"3q2+7w=="}}}
    {"pickle":"gASV..."}

The engine's own sinks *name* their message types, dataclasses, by a tag each that stays when a
class moves: ``messageTypes`` of the writer. What is stored under a tag is read by the type's
fields: nothing is imported, no constructor runs. ``dataclass`` and ``pickle`` are for the messages
of writers that somebody else has made.

Whoever can write a checkpoint must not gain code execution by it. So of these two nothing is loaded
but *record classes* (dataclasses, named tuples, enums, PySpark's ``WriterCommitMessage`` and its
subclasses) that are defined in the writer's own module or below it, and the plain value types of
:data:`_VALUE_TYPES`. Those modules may be imported for it, no others are. Under ``dataclass`` no
constructor runs; a pickle may call those of the classes that it may name.

What this refuses to read is refused when it is written: else only the restart would find out.
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
from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Final

import msgspec

from engine.base.json_text import JSON, dump, load_object
from engine.errors import CheckpointCorruptError, ContinuousError, SinkCommitRejectedError
from engine.wire.messages import LettersAlone, SunkEpoch

RESERVED_TAGS: Final = frozenset({"none", "sunk", "letters", "dataclass", "pickle"})
UNREAD_LETTERS: Final = "dead letters, which this start does not keep"
_LETTERS: Final = "files"
"""The tag of what their sink returns, see :mod:`engine.sinks.dead_letters`."""
_NONE: Final = {"none": True}
_SUNK: Final = ("written", "dead_letters")

# How the engine's own messages were named before they had tags.
_FORMER_NAMES: Final = {
    "engine.sinks.files:FilesMessage": "files",
    "engine.sinks.files.data_source:FilesMessage": "files",
    "engine.sinks.file_sink_log:SinkFile": "file",
    "engine.sinks.files.file_sink_log:SinkFile": "file",
    "engine.sinks.shipped:ShippedRows": "shipped",
    "engine.sinks.noop:NoMessage": "empty",
    "engine.messages:SunkEpoch": "sunk",
    "engine.wire.messages:SunkEpoch": "sunk",
}

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


class MessageCodec:
    """Writes and reads the messages of one sink.

    :param types: tag → dataclass of the sink's own messages, with fields of plain types.
    :param modules: where the record classes of other messages may come from: a module, or a
        package with all that is below it. None: no sink is known; all messages are written, and
        plain ones read.
    """

    def __init__(
        self, types: Mapping[str, type] | None = None, modules: Collection[str] | None = None
    ):
        types = types or {}
        assert RESERVED_TAGS.isdisjoint(types), f"{sorted(types)} has a reserved tag"
        self._types = types
        self._proves = modules is not None
        self._modules = modules or ()
        self._found = cache(partial(_record_class, allowed_modules=self._modules))
        self._tags = {kind: tag for tag, kind in types.items()}
        self._encode_lines = msgspec.json.Encoder().encode_lines
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {
            tag: msgspec.json.Decoder(kind) for tag, kind in types.items()
        }
        self._decode_tag = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def encode(self, messages: Sequence[object]) -> bytes:
        """A line of JSON per message, between them a line feed.

        :raises SinkCommitRejectedError: one cannot be stored, or could not be loaded again; names
            its class.
        """
        kinds = set(map(type, messages))
        tag = self._tags.get(kinds.pop()) if len(kinds) == 1 else None
        try:
            if tag:  # thousands of them, mostly: what is around each is put there afterwards
                start = b"{%s:" % msgspec.json.encode(tag)
                lines = self._encode_lines(messages)[:-1]
                return start + lines.replace(b"\n", b"}\n" + start) + b"}"
            return bytes(self._encode_lines([self._tagged(each) for each in messages])[:-1])
        except (TypeError, ValueError) as exc:
            for each in messages:
                self._try(each)
            raise cannot_store(messages, exc, self._modules) from exc

    def _try(self, message: object) -> None:
        try:
            self._encode_lines([self._tagged(message)])
        except (TypeError, ValueError) as exc:
            raise cannot_store(message, exc, self._modules) from exc

    def _tagged(self, message: object) -> object:
        """What becomes the message's line."""
        tag = self._tags.get(type(message))
        if tag is not None:
            return {tag: message}
        if message is None:
            return _NONE
        if type(message) is SunkEpoch:
            return {"sunk": {name: self._tagged(getattr(message, name)) for name in _SUNK}}
        if type(message) is LettersAlone:
            return {"letters": self._tagged(message.dead_letters)}
        return msgspec.Raw(dump(self._readable(message)).encode())

    def _readable(self, message: object) -> dict[str, JSON]:
        """The message of a writer that has not named its types. It is read at once: what no restart
        could read must not become durable, or it would stop the query for good."""
        try:
            data = _foreign(message)
            if self._proves:
                self._decode_foreign(data)
        except Exception as exc:
            raise cannot_store(message, exc, self._modules) from exc
        return data

    def decode(self, line: bytes) -> object:
        """The message of a line.

        :raises CheckpointCorruptError: it is torn, or names a class that is not allowed.
        """
        try:
            fields = self._decode_tag(line)
            tag = next(iter(fields)) if len(fields) == 1 else ""
            if tag in self._decoders:
                return self._decoders[tag].decode(fields[tag])
            if tag == "sunk":
                parts = self._decode_tag(fields[tag])
                if parts.keys() != set(_SUNK):
                    raise CheckpointCorruptError(f"A message of two has the parts {list(parts)}.")
                written, letters = (bytes(parts[name]) for name in _SUNK)
                return SunkEpoch(self.decode(written), self._letters(letters))
            if tag == "letters":
                return LettersAlone(self._letters(bytes(fields[tag])))
            return self._decode_foreign(load_object(line))
        except CheckpointCorruptError:
            raise
        except Exception as exc:
            # A damaged pickle raises almost anything.
            raise CheckpointCorruptError(
                f"A writer's commit message cannot be read: {type(exc).__name__}: {exc}"
            ) from exc

    def _letters(self, line: bytes) -> object:
        """A message of dead letters. A start that keeps none does not know it, and has to tell that
        there are some."""
        is_known = _LETTERS in self._decoders or self._decode_tag(line).keys() != {_LETTERS}
        return self.decode(line) if is_known else UNREAD_LETTERS

    def _decode_foreign(self, data: dict[str, JSON]) -> object:
        if data == _NONE:
            return None
        if data.keys() == {"dataclass", "fields"}:
            return self._build(data["dataclass"], data["fields"])
        if data.keys() == {"pickle"}:
            pickled = base64.b64decode(data["pickle"], validate=True)
            return _RestrictedUnpickler(io.BytesIO(pickled), self).load()
        raise CheckpointCorruptError(
            f"A writer's commit message is of no known kind: {sorted(data)}",
            hint="Run the sink that wrote it once, until its epoch is committed.",
        )

    def _build(self, name: str, fields: dict[str, JSON]) -> Any:
        own = self._own_type(name)
        if own is SunkEpoch:
            return SunkEpoch(*(self._value(fields[each]) for each in _SUNK))
        if own is not None:
            return msgspec.convert(_bare(fields), own)
        module, _, qualified_name = name.partition(":")
        kind = self.record_class(module, qualified_name)
        if not dataclasses.is_dataclass(kind):
            raise CheckpointCorruptError(f"{name} is not a dataclass.")
        expected = {field.name for field in dataclasses.fields(kind)}
        if fields.keys() != expected:
            raise CheckpointCorruptError(
                f"A stored {name} has the fields {sorted(fields)}, the class has "
                f"{sorted(expected)}.",
                hint="Run the version of the sink that wrote it once, until its epoch is "
                "committed.",
            )
        record = object.__new__(kind)
        for field, value in fields.items():
            object.__setattr__(record, field, self._value(value))
        return record

    def _value(self, data: JSON) -> Any:
        if isinstance(data, list):
            return [self._value(item) for item in data]
        if not isinstance(data, dict):
            return data
        if data.keys() == {"$tuple"}:
            return tuple(self._value(item) for item in data["$tuple"])
        if data.keys() == {"$bytes"}:
            return base64.b64decode(data["$bytes"], validate=True)
        if data.keys() == {"$dataclass", "fields"}:
            return self._build(data["$dataclass"], data["fields"])
        return {key: self._value(item) for key, item in data.items()}

    def _own_type(self, name: str) -> type | None:
        """A type of the sink's own by the name that it once had."""
        tag = _FORMER_NAMES.get(name)
        return SunkEpoch if tag == "sunk" else self._types.get(tag) if tag else None

    def record_class(self, module: str, qualified_name: str) -> type:
        """A class by name, if it is an allowed one.

        :raises CheckpointCorruptError: it is not.
        """
        own = self._own_type(f"{module}:{qualified_name}")
        return own or self._found(module, qualified_name)


def cannot_store(
    message: object, reason: Exception, modules: Collection[str] = ()
) -> SinkCommitRejectedError:
    """The error of a message that neither this run nor a later one can commit.

    :param modules: where its classes may come from, as far as that is known.
    """
    if isinstance(message, SunkEpoch):
        message = message.written
    kind = type(message)
    told = reason.message if isinstance(reason, ContinuousError) else f"{reason!r}."
    where = " or ".join(sorted(modules)) or "the writer's own module"
    return SinkCommitRejectedError(
        f"What the sink's write() returned, a {kind.__module__}.{kind.__qualname__}, cannot be "
        f"stored in the checkpoint so that a restart can read it. {told}",
        hint="Return a dataclass of plain values (None, numbers, texts, bytes, lists, tuples, "
        f"dictionaries, dates, decimals) at the top level of {where}, or of a module below it.",
    )


def _foreign(message: object) -> dict[str, JSON]:
    kind = type(message)
    if dataclasses.is_dataclass(kind):
        try:
            return {"dataclass": _class_name(kind), "fields": _fields(message)}
        except _NotPlainError:
            pass
    return {"pickle": base64.b64encode(pickle.dumps(message, protocol=4)).decode("ascii")}


def _bare(data: JSON) -> Any:
    """Stored values without what tells their types."""
    if isinstance(data, list):
        return [_bare(item) for item in data]
    if not isinstance(data, dict):
        return data
    if data.keys() == {"$dataclass", "fields"}:
        return _bare(data["fields"])
    if len(data) == 1:
        ((key, value),) = data.items()
        if key in ("$tuple", "$bytes"):
            return _bare(value)
    return {key: _bare(item) for key, item in data.items()}


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


def _class_name(kind: type) -> str:
    if "<locals>" in kind.__qualname__:
        raise _NotPlainError
    return f"{kind.__module__}:{kind.__qualname__}"


# -- what may be loaded ---------------------------------------------------------------------------


# The Python twin of pickle.Unpickler: only there can an opcode be refused.
class _RestrictedUnpickler(pickle._Unpickler):
    dispatch: ClassVar[dict[int, Any]] = pickle._Unpickler.dispatch.copy()

    def __init__(self, file: io.BytesIO, codec: MessageCodec) -> None:
        super().__init__(file)
        self._codec = codec

    def find_class(self, module: str, name: str, /) -> Any:
        value_type = _VALUE_TYPES.get((module, name))
        if value_type is not None:
            return value_type
        return self._codec.record_class(module, name)

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
