"""The prepared log, and what may be loaded from it."""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import uuid
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSource, WriterCommitMessage

from engine.base.json_text import dump, load_object
from engine.checkpoint.logs.codec import UNREAD_LETTERS, MessageCodec
from engine.checkpoint.logs.prepared_log import PreparedEntry, prepared_heads, prepared_log
from engine.checkpoint.storage.local_storage import LocalStorage
from engine.errors import (
    CheckpointCorruptError,
    CheckpointVersionError,
    SinkCommitRejectedError,
)
from engine.sinks.files.data_source import FilesMessage
from engine.sinks.files.file_sink_log import SinkFile
from engine.sinks.shipped import ShippedRows
from engine.wire.messages import LettersAlone, SunkEpoch
from tests.unit import messages_of_a_sink as sink

ALLOWED = ("tests.unit.messages_of_a_sink",)
NAME = sink.__name__
CODEC = MessageCodec(modules=ALLOWED)
OWN = {"files": FilesMessage, "shipped": ShippedRows}


def encode(message: object, codec: MessageCodec = CODEC) -> dict[str, Any]:
    return load_object(codec.encode([message]))


def decode(data: dict[str, Any], modules: Collection[str], types: Any = None) -> object:
    return MessageCodec(types, modules).decode(dump(data).encode())


WHEN = datetime(2024, 2, 29, 12, 30, tzinfo=timezone(timedelta(hours=2)))


@dataclass
class Elsewhere:
    """Defined in a module that is not allowed."""

    name: str


# -- encoding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (None, {"none": True}),
        (
            sink.FilesWritten(["a.parquet"], 3, b"\xde\xad"),
            {
                "dataclass": f"{NAME}:FilesWritten",
                "fields": {"paths": ["a.parquet"], "rows": 3, "digest": {"$bytes": "3q0="}},
            },
        ),
        (
            sink.Range((1, 2), {"k": [None, True, 1.5]}, sink.Range((3, 4))),
            {
                "dataclass": f"{NAME}:Range",
                "fields": {
                    "ends": {"$tuple": [1, 2]},
                    "parts": {"k": [None, True, 1.5]},
                    "inner": {
                        "$dataclass": f"{NAME}:Range",
                        "fields": {"ends": {"$tuple": [3, 4]}, "parts": {}, "inner": None},
                    },
                },
            },
        ),
        (sink.Slotted("x"), {"dataclass": f"{NAME}:Slotted", "fields": {"name": "x"}}),
    ],
)
def test_plain_messages_are_json(message: object, data: dict[str, Any]) -> None:
    assert encode(message) == data
    decoded = decode(data, ALLOWED)
    assert decoded == message
    assert type(decoded) is type(message)


@pytest.mark.parametrize(
    "message",
    [
        sink.Plain(WHEN, {"a", "b"}),
        sink.Plain(WHEN, set(), [Decimal("1.50"), date(2024, 1, 1), uuid.UUID(int=7)]),
        sink.Plain(WHEN, set(), sink.Pair(1, sink.Color.RED)),
        sink.Plain(WHEN, set(), {"range": sink.Range((1, 2))}),
        sink.FilesWritten([sink.Color.RED]),  # type: ignore[list-item]
        sink.Range((1, 2), {"$odd": 1}),
        sink.Range((1, 2), {"inf": float("inf")}),
        sink.Range((1, 2), {1: "key"}),  # type: ignore[dict-item]
        sink.Grown("x").grow(),
        {"just": "a dict"},
        "just text",
    ],
)
def test_other_messages_are_pickled(message: object) -> None:
    data = encode(message)
    assert data.keys() == {"pickle"}
    decoded = decode(data, ALLOWED)
    assert decoded == message
    assert type(decoded) is type(message)
    assert getattr(decoded, "__dict__", None) == getattr(message, "__dict__", None)


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | st.builds(sink.Range, st.just((0, 1)), st.dictionaries(st.text(), inner))
    ),
    max_leaves=8,
)


@given(plain_values)
def test_any_message_round_trips(value: Any) -> None:
    message = sink.Range((0, 1), {"value": value})
    assert decode(encode(message), ALLOWED) == message


def test_a_message_that_cannot_be_stored_names_its_class() -> None:
    @dataclass
    class Local:
        name: str

    for message in (Local("x"), sink.Plain(WHEN, set(), lambda: None)):
        with pytest.raises(SinkCommitRejectedError, match="cannot be stored") as caught:
            encode(message)
        assert type(message).__qualname__ in str(caught.value)


@pytest.mark.parametrize(
    "value", [Path("x"), np.int64(1), Elsewhere("x"), sink.touch, sink.Service("x")]
)
def test_a_message_that_could_not_be_read_again_is_not_stored(value: Any) -> None:
    for message in (value, sink.Pair(1, value), sink.Range((1, 2), {"value": value})):
        with pytest.raises(
            SinkCommitRejectedError, match="so that a restart can read it"
        ) as caught:
            encode(message)
        assert type(message).__qualname__ in caught.value.message
        assert NAME in str(caught.value)


# -- decoding: nobody gains code execution ---------------------------------------------------------


class Reduced:
    """Pickles as a call."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def pickled(value: object) -> dict[str, str]:
    return {"pickle": base64.b64encode(pickle.dumps(value)).decode()}


def raw(code: bytes) -> dict[str, str]:
    return {"pickle": base64.b64encode(code).decode()}


def by_dotted_name(name: str) -> dict[str, str]:
    """What protocol 4 allows: to walk from an allowed module to anything it refers to."""
    parts = [b"\x8c" + bytes([len(text)]) + text.encode() for text in (NAME, name)]
    return raw(b"\x80\x04" + b"".join(parts) + b"\x93.")


@pytest.mark.parametrize(
    "data",
    [
        pickled(Reduced(os.system, "touch pwned")),
        pickled(Reduced(eval, "open('pwned', 'w')")),
        pickled(Reduced(getattr, "x", "upper")),
        pickled(Reduced(__import__, "os")),
        pickled(Reduced(subprocess.Popen, ["touch", "pwned"])),
        pickled(Reduced(sink.touch, "pwned")),
        pickled(Reduced(sink.Service, "pwned")),
        pickled(sink.Plain(WHEN, set(), Reduced(os.system, "touch pwned"))),
        pickled(sink.Service),
        pickled(Elsewhere("x")),
        pickled(Path("x")),
        # What an allowed module has imported is not what it defines.
        raw(b"c" + NAME.encode() + b"\nsystem\n(S'touch pwned'\ntR."),
        raw(b"\x80\x04\x8c" + bytes([len(NAME)]) + NAME.encode() + b"\x8c\x09os.system\x93."),
        by_dotted_name("HTTPStatus"),
        by_dotted_name("FilesWritten.__class__"),
        by_dotted_name("Range.Nested"),
        # A class is not changed: BUILD with slot state would set its attributes.
        raw(b"c" + NAME.encode() + b"\nRange\n(N(dS'ends'\nI1\nstb."),
        raw(b"cuuid\nUUID\n(N(dS'int'\nI1\nstb."),
        raw(b"Ppersistent\n."),
        raw(b"cbuiltins\neval\n."),
        raw(b"cbuiltins\nobject\n."),
        {"dataclass": "subprocess:Popen", "fields": {"args": ["touch", "pwned"]}},
        {"dataclass": f"{NAME}:subprocess.Popen", "fields": {}},
        {"dataclass": f"{NAME}:Service", "fields": {"path": "pwned"}},
        {"dataclass": f"{NAME}:touch", "fields": {}},
        {"dataclass": f"{NAME}:Color", "fields": {}},
        {"dataclass": f"{NAME}:NoSuchClass", "fields": {}},
        {"dataclass": "tests.unit.messages_of_a_sink_2:X", "fields": {}},
        {"dataclass": f"{Elsewhere.__module__}:Elsewhere", "fields": {"name": "x"}},
        {"dataclass": 7, "fields": {}},
        {"dataclass": f"{NAME}:Slotted", "fields": []},
        {"dataclass": f"{NAME}:Slotted", "fields": {"name": {"$dataclass": "os:X", "fields": {}}}},
        {"dataclass": f"{NAME}:Slotted", "fields": {"name": {"$bytes": "!"}}},
        {"dataclass": f"{NAME}:Slotted", "fields": {"name": "x", "other": 1}},
        {"dataclass": f"{NAME}:Slotted", "fields": {}},
        {"pickle": "not base64"},
        {"pickle": 7},
        raw(b""),
        raw(b"\x80\x04."),
        {},
        {"none": False},
        {"unknown": 1},
    ],
    ids=str,
)
def test_what_is_not_allowed_is_refused(
    data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink.TOUCHED.clear()
    with pytest.raises(CheckpointCorruptError):
        decode(data, ALLOWED)
    assert sink.TOUCHED == []
    assert list(tmp_path.iterdir()) == []


def test_no_module_is_imported_that_is_not_allowed() -> None:
    import sys

    assert "this" not in sys.modules
    for data in ({"dataclass": "this:X", "fields": {}}, raw(b"cthis\ns\n.")):
        with pytest.raises(CheckpointCorruptError, match="not one that the sink names"):
            decode(data, ALLOWED)
    assert "this" not in sys.modules


def test_constructors_of_dataclasses_do_not_run() -> None:
    data = encode(sink.Touching("x"))
    sink.TOUCHED.clear()
    assert decode(data, ALLOWED) == sink.Touching("x")
    assert sink.TOUCHED == ["x"]  # by the comparison's right side alone


def test_a_package_allows_what_is_below_it() -> None:
    data = {"dataclass": f"{NAME}:Slotted", "fields": {"name": "x"}}
    assert encode(sink.Slotted("x"), MessageCodec(modules=["tests"])) == data
    assert decode(data, ["tests"]) == sink.Slotted("x")
    for others in ((), ("test",), ("tests.unit.messages",), ("messages_of_a_sink",)):
        with pytest.raises(CheckpointCorruptError, match="Slotted"):
            decode(data, others)


def test_the_empty_message_needs_no_permission() -> None:
    decoded = decode(encode(WriterCommitMessage()), ())
    assert type(decoded) is WriterCommitMessage
    with pytest.raises(CheckpointCorruptError):
        decode(pickled(DataSource), ())


# -- a sink's own types ---------------------------------------------------------------------------

FILES = FilesMessage((SinkFile("file:///out/a%20b.json", 412, 7),))
FILES_DATA = {
    "files": [
        {
            "path": "file:///out/a%20b.json",
            "size": 412,
            "modified_ms": 7,
            "block_replication": 1,
            "block_size": 33_554_432,
        }
    ],
    "host": None,
}


def test_many_messages_have_a_line_each() -> None:
    paths = ["file:///out/a.json", "file:///out/line\nfeed", 'file:///out/"}\n{"', "", "ü"]
    messages = [FilesMessage((SinkFile(path, 412, 7),) * 2) for path in paths]
    codec = MessageCodec(OWN)
    lines = codec.encode(messages).split(b"\n")
    assert [codec.decode(line) for line in lines] == messages
    assert lines == [codec.encode([message]) for message in messages]
    assert codec.encode([*messages, None]) == codec.encode(messages) + b'\n{"none":true}'


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (FILES, {"files": FILES_DATA}),
        (ShippedRows(b"\xde\xad"), {"shipped": {"stream": "3q0="}}),
        (
            SunkEpoch(FILES, None),
            {"sunk": {"written": {"files": FILES_DATA}, "dead_letters": {"none": True}}},
        ),
        (
            SunkEpoch(sink.Slotted("x"), FILES),
            {
                "sunk": {
                    "written": {"dataclass": f"{NAME}:Slotted", "fields": {"name": "x"}},
                    "dead_letters": {"files": FILES_DATA},
                }
            },
        ),
        (LettersAlone(FILES), {"letters": {"files": FILES_DATA}}),
    ],
)
def test_own_types_have_tags(message: object, data: dict[str, Any]) -> None:
    codec = MessageCodec(OWN, ALLOWED)
    assert encode(message, codec) == data
    assert codec.decode(codec.encode([message])) == message


@pytest.mark.parametrize("message", [SunkEpoch(None, FILES), LettersAlone(FILES)])
def test_letters_that_a_start_does_not_keep_are_told_all_the_same(message: Any) -> None:
    line = MessageCodec(OWN).encode([message])
    found: Any = MessageCodec({}).decode(line)
    assert type(found) is type(message)
    assert found.dead_letters == UNREAD_LETTERS
    with pytest.raises(CheckpointCorruptError, match="no known kind"):
        MessageCodec({}).decode(MessageCodec(OWN).encode([FILES]))


def test_what_is_under_a_tag_needs_no_constructor_and_no_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codec = MessageCodec(OWN)
    line = codec.encode([FILES])
    monkeypatch.setattr(FilesMessage, "__init__", None)
    monkeypatch.setattr("engine.checkpoint.logs.codec.importlib", None)
    assert codec.decode(line) == FILES


@pytest.mark.parametrize(
    "data",
    [
        {"files": {}},
        {"files": {"files": "none"}},
        {"files": {"files": [{"path": 1, "size": 2, "modified_ms": 3}]}},
        {"files": None},
        {"shipped": {"stream": "!"}},
        {"files": FILES_DATA, "shipped": {"stream": ""}},
        {"sunk": {"written": {"none": True}}},
        {"sunk": 7},
        {"letters": {}},
        {"dataclass": "engine.errors:ContinuousError", "fields": {}},
    ],
    ids=str,
)
def test_what_does_not_fit_its_tag_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(CheckpointCorruptError):
        decode(data, (), OWN)


def test_own_types_do_not_open_the_engine() -> None:
    for kind in (sink.Slotted("x"), Elsewhere("x")):
        with pytest.raises(CheckpointCorruptError, match="not one that the sink names"):
            decode(encode(kind, MessageCodec(modules=["tests"])), (), OWN)


# -- the log --------------------------------------------------------------------------------------

ENTRY = PreparedEntry(3, "run-1", (sink.FilesWritten(["a"]), None, sink.Plain(WHEN, {"t"})))


def test_bytes(tmp_path: Path) -> None:
    log = prepared_log(LocalStorage(tmp_path), CODEC)
    log.add(0, PreparedEntry(3, "run-1", (None, sink.Slotted("a\nb")), 'v1\n\n{"0":7}', "Q"))
    body = (
        '{"generation":3,"runId":"run-1","partitions":2,"queryId":"Q","offsets":"v1\\n\\n{\\"0\\":7}"}\n'
        f'{{"none":true}}\n{{"dataclass":"{NAME}:Slotted","fields":{{"name":"a\\nb"}}}}'
    )
    content = b"v3\n" + body.encode()
    checksum = f"{zlib.crc32(content):08x}"
    assert (tmp_path / "prepared" / "0").read_text() == f"v3\n{checksum}\n{body}"


def test_version_1_has_no_checksum_and_no_offsets(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.create(
        "prepared/0", b'v1\n{"generation":3,"runId":"run-1","partitions":1}\n{"none":true}'
    )
    assert prepared_log(storage, MessageCodec()).get(0) == PreparedEntry(3, "run-1", (None,))


def test_a_flipped_bit_is_refused_wherever_it_is(tmp_path: Path) -> None:
    log = prepared_log(LocalStorage(tmp_path), CODEC)
    log.add(7, ENTRY)
    path = tmp_path / "prepared" / "7"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises((CheckpointCorruptError, CheckpointVersionError)):
            log.get(7)


def test_round_trip(tmp_path: Path) -> None:
    log = prepared_log(LocalStorage(tmp_path), CODEC)
    assert log.add(7, ENTRY) is True
    assert log.add(7, PreparedEntry(4, "run-2", ())) is False
    assert log.get(7) == ENTRY


def test_what_a_sink_has_of_a_lost_epoch(tmp_path: Path) -> None:
    log = prepared_log(LocalStorage(tmp_path), CODEC)
    tasks = (("0/a", "0/b"), ("1/0",))
    whole = PreparedEntry(3, "run-1", (None, None), "v1", "Q", tasks, frozenset({"0/c"}))
    log.add(7, whole)
    assert log.get(7) == whole
    lost = PreparedEntry(4, "run-1", (), "v1", "Q", done=frozenset({"0/c", "1/0"}), lost=True)
    log.restore(7, log.text(lost))
    assert log.get(7) == lost
    assert prepared_heads(LocalStorage(tmp_path)).get(7) == lost


def test_the_sink_has_to_name_its_modules(tmp_path: Path) -> None:
    prepared_log(LocalStorage(tmp_path), MessageCodec()).add(7, ENTRY)
    with pytest.raises(CheckpointCorruptError, match="prepared/7") as caught:
        prepared_log(LocalStorage(tmp_path), MessageCodec()).get(7)
    assert "FilesWritten" in str(caught.value)


def test_a_torn_entry_is_refused_at_every_length(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    log = prepared_log(storage, CODEC)
    log.add(0, ENTRY)
    content = storage.read("prepared/0")
    for length in range(len(content)):
        storage.replace("prepared/1", content[:length], durable=False)
        with pytest.raises(CheckpointCorruptError, match="prepared/1"):
            log.get(1)


@pytest.mark.parametrize(
    "content",
    [
        b'v1\n{"generation":"3","runId":"r","partitions":0}',
        b'v1\n{"generation":3,"partitions":0}',
        b'v1\n{"generation":3,"runId":"r","partitions":1}',
        b'v1\n{"generation":3,"runId":"r","partitions":0}\n{"none":true}',
        b'v1\n{"generation":3,"runId":"r","partitions":1}\n[]',
    ],
)
def test_damage(tmp_path: Path, content: bytes) -> None:
    storage = LocalStorage(tmp_path)
    storage.create("prepared/0", content)
    with pytest.raises(CheckpointCorruptError, match="prepared/0"):
        prepared_log(storage, MessageCodec()).get(0)


def test_newer_version(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.create("prepared/0", b"v4\n{}")
    with pytest.raises(CheckpointVersionError, match="encountered v4"):
        prepared_log(storage, MessageCodec()).get(0)
