"""What tells one query from another, what may change, and that no secret gets into a checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.fingerprint_file import NAME, read_fingerprint, write_fingerprint
from engine.errors import CheckpointCorruptError, CheckpointVersionError
from engine.pipeline.fingerprint import compare, fingerprint
from engine.pipeline.identity import Change
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.pipeline.stateful import Aggregate, Exchange, Exchanged, GroupRows

SCHEMA = pa.schema([pa.field("carrier", pa.string()), pa.field("delay", pa.int64())])
SOURCE = SourceRelation(
    "tail", {"path": "/data/in", "fileFormat": "json", "pollIntervalMs": "5"}, SCHEMA
)
PIPELINE = Pipeline(SOURCE, (), SCHEMA, descriptions=("Filter (delay > 15)",))
SINK = {"path": "/data/out"}


def made(
    pipeline: Pipeline = PIPELINE, sink: str = "parquet", sink_options: dict[str, str] | None = None
) -> dict[str, Any]:
    parts = fingerprint(
        [(pipeline, ("pollIntervalMs", "numPartitions"))],
        sink_format=sink,
        sink_options=SINK if sink_options is None else sink_options,
        sink_tuning=("compression",),
    )
    stored: dict[str, Any] = json.loads(json.dumps(parts))
    return stored


def source(**options: str) -> Pipeline:
    return replace(PIPELINE, source=replace(SOURCE, options={**SOURCE.options, **options}))


def with_schema(*fields: tuple[str, pa.DataType]) -> Pipeline:
    return replace(PIPELINE, schema=pa.schema(list(fields)))


TEXT, LONG = ("carrier", pa.string()), ("delay", pa.int64())


@pytest.mark.parametrize(
    "new",
    [
        made(),
        made(source(pollIntervalMs="50", numPartitions="4")),
        made(source(PATH="/data/in")) | {"sources": made()["sources"]},
        made(sink_options={"path": "file:///data/out/", "compression": "zstd"}),
        made(sink="PARQUET"),
    ],
)
def test_nothing_has_changed(new: dict[str, Any]) -> None:
    assert compare(made(), new) == []


@pytest.mark.parametrize(
    ("new", "shown"),
    [
        (
            made(replace(PIPELINE, descriptions=())),
            "source.steps: Filter (delay > 15) → nothing",
        ),
        (made(replace(PIPELINE, session_timezone="Asia/Tokyo")), "time_zone: UTC → Asia/Tokyo"),
        (
            made(with_schema(TEXT, LONG, ("late", pa.bool_()))),
            "schema: carrier STRING; delay BIGINT → carrier STRING; delay BIGINT; late BOOLEAN",
        ),
        (
            made(with_schema(LONG, TEXT)),
            "schema: carrier STRING; delay BIGINT → delay BIGINT; carrier STRING",
        ),
        (
            made(replace(PIPELINE, source=replace(SOURCE, schema=pa.schema([TEXT])))),
            "source.schema: carrier STRING; delay BIGINT → carrier STRING",
        ),
    ],
)
def test_safe_changes(new: dict[str, Any], shown: str) -> None:
    (change,) = compare(made(), new)
    assert (str(change), change.is_safe) == (shown, True)


@pytest.mark.parametrize(
    ("new", "shown"),
    [
        (
            made(source(path="/data/other")),
            "source.options.path: /data/in → /data/other (its offsets mean other data)",
        ),
        (
            made(source(pathGlobFilter="*.json")),
            "source.options.pathglobfilter: nothing → *.json (its offsets mean other data)",
        ),
        (
            made(replace(PIPELINE, source=replace(SOURCE, format="rate"))),
            "source.format: tail → rate (its offsets mean other data)",
        ),
        (
            made(sink_options={"path": "/data/out2"}),
            "sink.options.path: /data/out → /data/out2 "
            "(it does not have the epochs of this checkpoint)",
        ),
        (
            made(sink_options={"path": "/data/out", "partitionby": "carrier"}),
            "sink.options.partitionby: nothing → carrier "
            "(it does not have the epochs of this checkpoint)",
        ),
        (
            made(sink="json"),
            "sink.format: parquet → json (it does not have the epochs of this checkpoint)",
        ),
        (
            made(with_schema(TEXT)),
            "schema: carrier STRING; delay BIGINT → carrier STRING "
            "(what is written already has delay BIGINT)",
        ),
        (
            made(with_schema(TEXT, ("delay", pa.string()))),
            "schema: carrier STRING; delay BIGINT → carrier STRING; delay STRING "
            "(what is written already has delay BIGINT)",
        ),
    ],
)
def test_unsafe_changes(new: dict[str, Any], shown: str) -> None:
    (change,) = compare(made(), new)
    assert (str(change), change.is_safe) == (shown, False)


def test_the_unsafe_come_first() -> None:
    new = made(replace(source(path="/x"), descriptions=(), session_timezone="CET"))
    assert [c.part for c in compare(made(), new)] == [
        "source.options.path",
        "source.steps",
        "time_zone",
    ]


def test_csv_is_read_by_position() -> None:
    wider = made(with_schema(TEXT, LONG, ("late", pa.bool_())), sink="csv")
    (change,) = compare(made(sink="csv"), wider)
    assert not change.is_safe


def test_a_sink_without_a_schema() -> None:
    (change,) = compare(made(sink="console"), made(with_schema(TEXT), sink="console"))
    assert change.is_safe


SECRETS = {
    "password": "hunter2",
    "kafka.ssl.keystore.password": "hunter2",
    "fs.s3a.secret.key": "hunter2",
    "accessToken": "hunter2",
    "apiKey": "hunter2",
    "catalog.header.X-Tenant": "hunter2",
    "credentials": "hunter2",
    "kafka.sasl.jaas.config": 'Login required username="me" password="hunter2";',
    "properties": "user=me;password=hunter2",
    "url": "postgresql://me:hunter2@host/db",
    "passphrase": "hunter2",
    "cookie": "hunter2",
    "shared_access": "hunter2",
    "connectionString": "AccountName=a;AccountKey=hunter2;x=1",
    "container": "https://a.blob.core.windows.net/c?sv=1&sig=hunter2",
    "headers": "Authorization: Basic hunter2",
    "options": '{"apiKey": "hunter2"}',
    "jdbc": "jdbc:oracle:thin:u/hunter2@h:1521/x",
    "command": "--api-key hunter2",
}


@pytest.mark.parametrize("name", SECRETS)
def test_no_secret_is_stored(name: str, tmp_path: Path) -> None:
    pipeline = replace(
        source(**{name: SECRETS[name]}), descriptions=("Filter (api_key = 'hunter2')",)
    )
    checkpoint = Checkpoint(str(tmp_path))
    parts = made(pipeline, sink_options={**SINK, name: SECRETS[name]})
    write_fingerprint(checkpoint.storage, parts)
    assert b"hunter2" not in checkpoint.storage.read(NAME)
    # Nor is a new password another query.
    changed = SECRETS[name].replace("hunter2", "correct-horse")
    new = made(
        replace(source(**{name: changed}), descriptions=pipeline.descriptions),
        sink_options={**SINK, name: changed},
    )
    assert compare(parts, new) == []
    # An earlier release may have written the secret down: it is neither shown nor another query.
    parts["sources"][0]["options"][name.lower()] = SECRETS[name]
    parts["sources"][0]["steps"] = ["Filter (api_key = 'hunter2')"]
    parts["sink"]["options"][name.lower()] = SECRETS[name]
    if name != "url":  # what stands before an @ was never written down
        assert compare(parts, new) == []
    assert "hunter2" not in str(compare(parts, made()))


def test_the_rest_of_a_url_is_compared() -> None:
    old = made(source(url="postgresql://me:hunter2@host/db"))
    (change,) = compare(old, made(source(url="postgresql://me:hunter2@host/other")))
    assert str(change).startswith(
        "source.options.url: postgresql://host/db → postgresql://host/other"
    )


@pytest.mark.parametrize("scheme", ["abfs", "abfss", "wasbs"])
def test_the_container_of_a_url_is_compared(scheme: str) -> None:
    urls = [f"{scheme}://{each}@account.dfs.core.windows.net/x" for each in ("raw", "clean")]
    (change,) = compare(made(source(path=urls[0])), made(source(path=urls[1])))
    assert str(change).startswith(f"source.options.path: {urls[0]} → {urls[1]}")
    assert not change.is_safe
    # A release that has not written it down does not say that it was another one.
    old = made(source(path=urls[0]))
    old["sources"][0]["options"]["path"] = f"{scheme}://account.dfs.core.windows.net/x"
    (change,) = compare(old, made(source(path=urls[0])))
    assert change.is_safe
    with_secret = f"{scheme}://raw:hunter2@account.dfs.core.windows.net/x"
    assert "hunter2" not in str(made(source(path=with_secret)))


def test_the_rest_of_a_connection_text_is_compared() -> None:
    old = made(source(at="AccountName=a;AccountKey=hunter2"))
    (change,) = compare(old, made(source(at="AccountName=b;AccountKey=hunter2")))
    assert str(change).startswith(
        "source.options.at: AccountName=a;AccountKey=*** → AccountName=b;AccountKey=***"
    )


def test_a_change_shows_no_secret_whoever_has_written_it_down() -> None:
    assert str(Change("x", "token=hunter2", "a://u:hunter2@h")) == "x: token=*** → a://u:***@h"


def test_which_columns_are_a_key_is_no_secret() -> None:
    (change,) = compare(made(source(keyColumns="id")), made(source(keyColumns="name")))
    assert not change.is_safe


def test_a_keyspace_is_no_secret() -> None:
    old = made(source(keyspace="shop"))
    (change,) = compare(old, made(source(keyspace="other")))
    assert not change.is_safe
    (change,) = compare(old, made())
    assert not change.is_safe
    (change,) = compare(made(), old)
    assert change.is_safe, "an earlier release did not note it"


def test_what_the_engine_hands_in_does_not_count() -> None:
    assert compare(made(), made(source(__default_parallelism="8"))) == []


def test_people_can_read_it(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert read_fingerprint(checkpoint.storage) is None
    write_fingerprint(checkpoint.storage, made())
    lines = checkpoint.storage.read(NAME).decode().splitlines()
    assert '        "path": "/data/in",' in lines or '        "path": "/data/in"' in lines
    stored = read_fingerprint(checkpoint.storage)
    assert stored is not None
    assert stored.pop("version") == 1
    assert stored == made()


def test_a_torn_file_is_refused_at_every_byte(tmp_path: Path) -> None:
    storage = Checkpoint(str(tmp_path)).storage
    write_fingerprint(storage, made())
    content = storage.read(NAME)
    for cut in range(len(content)):
        storage.replace(NAME, content[:cut], durable=False)
        with pytest.raises(CheckpointCorruptError, match="fingerprint cannot be read"):
            read_fingerprint(storage)


def test_a_newer_one_is_refused(tmp_path: Path) -> None:
    storage = Checkpoint(str(tmp_path)).storage
    storage.replace(NAME, b'{"version":2}')
    with pytest.raises(CheckpointVersionError, match="Upgrade"):
        read_fingerprint(storage)


def counting(*names: str, mode: str = "update", keys: tuple[str, ...] = ("carrier",)) -> Any:
    """The fingerprint of a query with one stage."""
    schema = pa.schema([*((key, pa.string()) for key in keys), *((n, pa.int64()) for n in names)])
    folds = tuple(Aggregate("Sum", (), pa.int64()) for _ in names)
    step = GroupRows("aggregate-0", tuple(range(len(keys))), folds, schema, mode)
    stage = Pipeline(
        Exchanged((SCHEMA,), ((0,),)), (step,), schema, descriptions=("Aggregate ...", "Filter x")
    )
    below = replace(PIPELINE, exchange=Exchange(1, (0,)))
    parts = fingerprint(
        [(below, ("pollIntervalMs", "numPartitions"))],
        [stage],
        sink_format="noop",
        sink_options={},
        sink_tuning=(),
    )
    stored: dict[str, Any] = json.loads(json.dumps(parts))
    return stored


def test_what_a_query_knows_is_of_that_query() -> None:
    old = counting("sum(delay)")
    assert compare(old, counting("sum(delay)")) == []
    (changed, *_) = compare(old, counting("max(delay)"))
    assert str(changed).startswith(
        "stage.aggregates: sum(delay) BIGINT → max(delay) BIGINT (its state"
    )
    assert not changed.is_safe
    for other, part in (
        (counting("sum(delay)", mode="complete"), "stage.output mode"),
        (counting("sum(delay)", keys=("carrier", "day")), "stage.keys"),
    ):
        assert part in [each.part for each in compare(old, other) if not each.is_safe]
    assert counting("sum(delay)")["schema"] == {"carrier": "STRING", "sum(delay)": "BIGINT"}


def test_state_does_not_move_to_where_it_is_read() -> None:
    step = GroupRows(
        "aggregate-0", (0,), (), pa.schema([pa.field("carrier", pa.string())]), "update"
    )
    there = replace(PIPELINE, steps=(step,), schema=step.schema)
    here = made(there, sink="noop", sink_options={})
    changes = compare(counting(), here)
    (unsafe,) = [change for change in changes if not change.is_safe]
    assert str(unsafe).startswith("stage.keysStayInPartitions: nothing → true (its state")
    assert compare(here, here) == []


def test_a_query_does_not_begin_to_keep_state_in_the_middle() -> None:
    without = made(sink="noop", sink_options={})
    (changed, *_) = compare(without, counting("sum(delay)"))
    assert str(changed).startswith("steps with state: 0 of them → 1 of them")
    assert not changed.is_safe
