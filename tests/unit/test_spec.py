"""Specifications: what is read, and that all that is wrong is told at once."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError
from engine.query.spec import QuerySpec, load_spec, read_document
from engine.query.spec.fields import literal
from engine.query.write_request import open_checkpoint, pop_storage

GOOD: dict[str, Any] = {
    "name": "delays",
    "source": {
        "format": "tail",
        "options": {"path": "in", "maxRowsPerSecond": 10, "live": True, "share": 0.5},
        "schema": "carrier STRING, dep_delay INT",
    },
    "sql": "SELECT * FROM source WHERE dep_delay > 15",
    "sink": {"format": "parquet", "options": {"path": "out"}, "partition_by": "carrier"},
    "trigger": {"continuous": "1 second"},
    "checkpoint_location": "checkpoint",
    "conf": {"spark.master": "local[2]", "spark.ui.enabled": False},
}


def changed(**keys: Any) -> dict[str, Any]:
    """The good specification with other keys; None leaves one out."""
    document = {**GOOD, **keys}
    return {key: value for key, value in document.items() if value is not None}


def problems(document: Any, **environ: str) -> list[str]:
    """What is wrong with a document, one line each."""
    with pytest.raises(ConfigError) as caught:
        load_spec(document, environ)
    title, *lines = str(caught.value).splitlines()
    count = len(lines)
    assert title.endswith(f"has {count} problem{'s' if count > 1 else ''}:")
    return [line.strip() for line in lines]


def test_all_keys_are_read() -> None:
    spec = load_spec(GOOD)
    assert spec.name == "delays"
    assert spec.source is not None
    assert spec.source.format == "tail"
    assert spec.source.options == {
        "path": "in",
        "maxRowsPerSecond": "10",
        "live": "true",
        "share": "0.5",
    }
    assert spec.source.schema == "carrier STRING, dep_delay INT"
    assert spec.sql == GOOD["sql"]
    assert spec.sink is not None
    assert (spec.sink.format, spec.sink.output_mode) == ("parquet", None)
    assert spec.sink.partition_by == ("carrier",)
    assert spec.trigger == ("continuous", "1 second")
    assert spec.checkpoint_location == "checkpoint"
    assert spec.conf == {"spark.master": "local[2]", "spark.ui.enabled": "false"}


def test_the_least_that_is_needed() -> None:
    spec = load_spec(
        {"source": {"format": "rate"}, "sink": {"format": "noop"}, "checkpoint_location": "c"}
    )
    assert (spec.sql, spec.trigger, spec.conf, spec.python_path) == (None, None, {}, ())


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        ({"processingTime": "5 seconds"}, ("processingTime", "5 seconds")),
        ({"availableNow": True}, ("availableNow", True)),
        ({"once": True}, ("once", True)),
        ({"realTime": "5 minutes"}, ("realTime", "5 minutes")),
    ],
)
def test_triggers(trigger: dict[str, Any], expected: tuple[str, Any]) -> None:
    assert load_spec(changed(trigger=trigger)).trigger == expected


def test_a_mode_is_chosen_or_left_to_the_trigger() -> None:
    assert load_spec(changed()).mode is None
    assert load_spec(changed(mode="Spark")).mode == "spark"
    assert load_spec(changed(mode="engine")).mode == "engine"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (changed(chekpoint_location="c"), ["chekpoint_location: unknown key; did you mean"]),
        (
            changed(checkpoint_location=None, checkpointLocation="c"),
            ["checkpointLocation: unknown key; did you mean checkpoint_location?",
             "checkpoint_location: is missing"],
        ),
        (changed(zebra=1), ["zebra: unknown key; the keys here are name, source, sql"]),
        (changed(name=3), ["name: must be text, not a number"]),
        (changed(name=" "), ["name: must not be empty"]),
        (changed(source="rate"), ["source: must be a mapping with the keys format, options, sch"]),
        (changed(source={"options": {}}), ["source.format: is missing"]),
        (
            changed(source={"format": "rate", "options": {"rowsPerSecond": [1]}}),
            ["source.options.rowsPerSecond: must be text, a number, true or false, not a list"],
        ),
        (changed(source={"format": "rate", "options": 3}), ["source.options: must be a mapping"]),
        (changed(source=None), ["source: is missing (or query)"]),
        (changed(sink=None), ["sink: is missing"]),
        (
            changed(sink={"format": "noop", "output_mode": "upsert"}),
            ["sink.output_mode: must be append or update or complete, not 'upsert'"],
        ),
        (
            changed(source={"format": "rate", "watermark": {"column": "at", "delay": "a while"}}),
            ["source.watermark.delay: 'a while' is not an interval"],
        ),
        (
            changed(sink={"format": "noop", "partition_by": ["a", 1]}),
            ["sink.partition_by[1]: must be text, not a number"],
        ),
        (changed(trigger="1 second"), ["trigger: must be a mapping with the keys continuous"]),
        (changed(trigger={}), ["trigger: must have exactly one of continuous, processingTime"]),
        (
            changed(trigger={"continuous": "1 second", "once": True}),
            ["trigger: must have exactly one of"],
        ),
        (
            changed(trigger={"continuous": "soon"}),
            ["trigger.continuous: 'soon' is not an interval"],
        ),
        (changed(trigger={"once": "yes"}), ["trigger.once: must be true, not 'yes'"]),
        (changed(mode="flink"), ["mode: must be engine or spark, not 'flink'"]),
        (
            changed(mode="engine", trigger={"once": True}),
            ["mode: the engine does not run the trigger once; say spark"],
        ),
        (changed(mode="spark", trigger=None), ["trigger: is missing: Spark has no default"]),
        (changed(query="json:dumps"), ["source: cannot be given together with query",
                                       "sql: cannot be given together with query"]),
        (changed(query="json", source=None, sql=None), ['query: must be "module:function"']),
        (
            changed(query="no_such_module_here:query", source=None, sql=None),
            ["query: there is no module no_such_module_here on the Python path"],
        ),
        (changed(python_path=["no/such/folder"]), ["python_path: there is no folder /"]),
        (changed(conf={"spark.master": None}), ["conf.spark.master: must be text"]),
        (
            changed(source={"format": "tail", "options": {"path": "/a", "Path": "/b", "PATH": 1}}),
            ["source.options: path and Path are one option, whose name may be in any case; leave",
             "source.options: path and PATH are one option"],
        ),
        (
            changed(query="json:dumps", source=None, sql=None,
                    connections={"lake": {"key": "a", "KEY": "b"}}),
            ["connections.lake: key and KEY are one option"],
        ),
        (
            changed(checkpoint_storage={"key": "a", "Key": "b"}),
            ["checkpoint_storage: key and Key are one option"],
        ),
    ],
)  # fmt: skip
def test_problems_are_told_with_their_place(document: Any, expected: list[str]) -> None:
    found = problems(document)
    assert len(found) == len(expected), found
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)


def test_all_problems_come_in_one_error() -> None:
    document = changed(
        nme="x", source={"fromat": "rate"}, trigger={"continuos": "1 second"}, sink=3, conf=[]
    )
    places = [line.partition(":")[0] for line in problems(document)]
    assert places == [
        "nme", "source.fromat", "source.format", "sink", "trigger.continuos", "conf",
    ]  # fmt: skip


# -- environment variables ----------------------------------------------------------------------


def test_variables_are_taken_from_the_environment() -> None:
    document = changed(
        source={"format": "tail", "options": {"path": "${FOLDER}/in", "password": "${SECRET}"}},
        checkpoint_location="${FOLDER}/checkpoint",
        sql="SELECT '${FOLDER}', '$${X}' FROM source",
    )
    spec = load_spec(document, {"FOLDER": "/data", "SECRET": "s3cr3t"})
    assert spec.source is not None
    assert spec.source.options == {"path": "/data/in", "password": "s3cr3t"}
    assert spec.checkpoint_location == "/data/checkpoint"
    assert spec.sql == "SELECT '${FOLDER}', '$${X}' FROM source"
    assert "s3cr3t" not in repr(spec)


def test_the_names_of_spark_settings_are_told_apart_by_their_capitals() -> None:
    conf = {"spark.hadoop.key": "a", "spark.hadoop.Key": "b"}
    assert load_spec(changed(conf=conf)).conf == conf


@pytest.mark.parametrize("text", ["${USER}", "$${USER}", "$$${USER}", "${USER", "a$b{c}", "$"])
def test_any_text_can_be_written_so_that_it_stays(text: str) -> None:
    spec = load_spec(changed(name=literal(text)), {"USER": "me"})
    assert spec.name == text


def test_two_dollars_escape_a_variable() -> None:
    spec = load_spec(changed(name="$${USER} $5"), {})
    assert spec.name == "${USER} $5"


def test_a_missing_variable_is_one_of_the_problems() -> None:
    document = changed(sink={"format": "noop", "options": {"url": "${HOST}:${PORT}"}}, zzz=1)
    assert problems(document, HOST="h") == [
        "zzz: unknown key; the keys here are name, source, sql, query, sink, trigger, "
        "mode, checkpoint_location, checkpoint_storage, connections, conf, python_path, "
        "log_format",
        "sink.options.url: the environment variable PORT is not set",
    ]


# -- files --------------------------------------------------------------------------------------


def test_yaml_and_json_files_read_alike(tmp_path: Path) -> None:
    as_json, as_yaml = tmp_path / "query.json", tmp_path / "query.yaml"
    as_json.write_text(json.dumps(GOOD))
    as_yaml.write_text(
        "name: delays\n"
        "source:\n"
        "  format: tail\n"
        "  options: {path: in, maxRowsPerSecond: 10, live: true, share: 0.5}\n"
        "  schema: carrier STRING, dep_delay INT\n"
        "sql: SELECT * FROM source WHERE dep_delay > 15\n"
        "sink: {format: parquet, options: {path: out}, partition_by: [carrier]}\n"
        "trigger: {continuous: 1 second}\n"
        "checkpoint_location: checkpoint\n"
        "conf: {spark.master: 'local[2]', spark.ui.enabled: false}\n"
    )
    assert load_spec(as_json) == load_spec(as_yaml) == load_spec(GOOD)


@pytest.mark.parametrize(
    ("file_name", "content", "reason"),
    [
        ("q.yaml", b"name: [1", "is not YAML: line 1, column 9: "),
        ("q.yaml", b"a: 1\nb: 2\na: 3\n", "is not YAML: line 3, column 1: the key 'a' occurs tw"),
        (
            "q.yaml",
            b"name: {{ var.value.q }}\n",
            "is not YAML: line 1, column 8: a key must be a text; quote {{ ... }}.",
        ),
        ("q.yaml", b"a: 1\n[a]: 1\n", "is not YAML: line 2, column 1: a key must be a text"),
        ("q.yaml", b"a: &a {*a : 1}\n", "is not YAML: line 1, column "),
        ("q.yaml", b"a: 2026-13-01\n", "is not YAML: month must be in 1..12"),
        ("q.yaml", b"a: " + b"[" * 20_000, "is not YAML: it is nested too deeply."),
        ("q.json", b"[" * 200_000, "is not JSON: it is nested too deeply."),
        ("q.yaml", b"- 1\n", "holds list, not a query specification"),
        ("q.yaml", b"", "holds nothing, not a query specification"),
        ("q.json", b'{"name": }', "is not JSON: Expecting value: line 1 column 10"),
        ("q.json", b'{"sink": {"a": 1, "b": 2, "a": 3}}', "is not JSON: the key 'a' occurs twice."),
        ("q.yaml", b"name: \xff\xfe", "cannot be read: it is not UTF-8"),
    ],
)
def test_unreadable_files_name_the_place(
    tmp_path: Path, file_name: str, content: bytes, reason: str
) -> None:
    path = tmp_path / file_name
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path} {reason}")


def test_standard_input_is_utf_8_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    def given(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), encoding="latin-1"))

    given('{"name": "Köln"}\r\n'.encode())
    assert read_document(Path("-")) == {"name": "Köln"}
    given(b'{"name": "K\xf6ln"}')
    with pytest.raises(ConfigError, match="- cannot be read: it is not UTF-8"):
        read_document(Path("-"))
    monkeypatch.setattr("sys.stdin", io.StringIO('{"name": "Köln"}'))
    assert read_document(Path("-")) == {"name": "Köln"}


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        load_spec(tmp_path / "nowhere.yaml")


def test_the_python_path_is_relative_to_the_document(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "my_queries_for_this_test.py").write_text("raise AssertionError('run')")
    path = tmp_path / "query.yaml"
    path.write_text("query: my_queries_for_this_test:delays\npython_path: [code]\n")
    expected = QuerySpec(query="my_queries_for_this_test:delays", python_path=(tmp_path / "code",))
    assert load_spec(path) == expected


# -- what opens the checkpoint's storage ----------------------------------------------------------


def test_options_of_the_checkpoints_storage_are_taken_out() -> None:
    options = {
        "path": "x",
        "checkpointStorage.key": "k",
        "checkpointstorage.client_kwargs.endpoint_url": "http://s3",
        "checkpointStorage.client_kwargs.verify": "false",
    }

    assert pop_storage(options) == {
        "key": "k",
        "client_kwargs": {"endpoint_url": "http://s3", "verify": False},
    }
    assert options == {"path": "x"}


def test_options_of_the_storage_that_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match="which another one sets"):
        pop_storage({"checkpointStorage.token": "t", "checkpointStorage.token.type": "a"})


def test_a_checkpoint_on_a_disk_needs_no_storage_options(tmp_path: Path) -> None:
    assert open_checkpoint(str(tmp_path), {}).url == str(tmp_path)
    with pytest.raises(ConfigError, match=r"checkpointStorage\.key has no"):
        open_checkpoint(str(tmp_path), {"key": "k"})
    opened = open_checkpoint("memory://nowhere/checkpoint", {"use_listings_cache": True})
    assert opened.committed_epoch() == -1
