"""The query specification: what its keys are and what they mean.

::

    name: delayed-departures              # also the name in progress reports
    source:
      format: tail                        # as in spark.readStream.format
      options: {path: /data/in, fileFormat: json}
      schema: "at TIMESTAMP, carrier STRING, dep_delay INT"
      watermark: {column: at, delay: 10 minutes}    # as DataFrame.withWatermark
    sql: "SELECT * FROM source WHERE dep_delay > 15"
    sink:
      format: parquet                     # as in DataFrame.writeStream.format
      options: {path: /data/out}
      partition_by: [carrier]
      output_mode: append               # or update, complete
    trigger: {continuous: 1 second}       # or processingTime, availableNow, once, realTime
    mode: engine                          # or spark; by default the trigger decides
    checkpoint_location: /data/checkpoint
    checkpoint_storage: {key: me}         # of fsspec, for a checkpoint on an object store
    conf: {spark.master: "local[2]"}      # of the Spark session
    log_format: text                      # or json: of the driver and its tasks

``mode: spark`` has Spark itself run the query, with any trigger; ``mode: engine`` is the default
with ``continuous`` and possible with no other one.

Instead of ``source`` and ``sql``, ``query: "module:function"`` names a function that takes the
SparkSession and returns an unstarted ``write_stream(...)``; what the document says besides
(``sink``, ``trigger``, ``mode``, ``checkpoint_location``, ``name``) replaces what the function has
set.
``connections`` has options by name, for that function: ``engine.connection_options(name)``.
``python_path`` lists folders to import from, relative to the document's own.

``${NAME}`` in any text but the SQL is the value of that environment variable where the query runs,
so that no secret stands in the file; ``$${NAME}`` is the text ``${NAME}``.

``connection``, in ``source`` and ``sink``, and a name in ``connections`` instead of options, are
connections of Airflow: its operators put what they say in their place.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from engine.base.options import parse_interval_ms
from engine.base.output_modes import ALL_MODES
from engine.errors import ConfigError
from engine.logs.json_lines import FORMATS
from engine.query.spec.document import read_document
from engine.query.spec.fields import (
    Field,
    Place,
    choice,
    folders,
    names,
    options,
    report_connection,
    section,
    settings,
    several_options,
    text,
    verbatim,
)


@dataclass(frozen=True)
class SourceSpec:
    """The stream that the view ``source`` shows. ``schema`` is a DDL string.

    :param watermark: the column of the event time, and how late rows may be, as an interval.
    """

    format: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: str | None = None
    watermark: tuple[str, str] | None = None


@dataclass(frozen=True)
class SinkSpec:
    """Where the rows go."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    partition_by: tuple[str, ...] = ()
    output_mode: str | None = None
    """None: ``append``, or what the query's function has set."""


@dataclass(frozen=True)
class QuerySpec:
    """A checked specification. Options may hold secrets and are not shown by ``repr``.

    :param source: None if ``query`` is given.
    :param sql: over the view ``source``; None for all of its rows.
    :param query: ``"module:function"``; None if ``source`` is given.
    :param trigger: the keyword of ``trigger()`` and its value; None for the default.
    :param mode: who runs the query, ``engine`` or ``spark``; None: the trigger decides.
    :param checkpoint_location: None only with ``query``.
    :param checkpoint_storage: see :func:`engine.query.write_request.pop_storage`.
    :param log_format: ``text`` or ``json``; None: nothing is said, which is ``text``.
    :param connections: see :func:`engine.query.connections.connection_options`.
    """

    name: str | None = None
    source: SourceSpec | None = None
    sql: str | None = None
    query: str | None = None
    sink: SinkSpec | None = None
    trigger: tuple[str, str | bool] | None = None
    mode: str | None = None
    checkpoint_location: str | None = None
    checkpoint_storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    connections: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    python_path: tuple[Path, ...] = ()
    log_format: str | None = None


def load_spec(
    document: str | os.PathLike[str] | Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
    is_needed: Callable[[str], bool] = lambda path: True,
) -> QuerySpec:
    """Read and check a specification.

    :param document: a YAML or JSON file, ``-`` for standard input, or the content.
    :param environ: the environment variables; by default those of this process.
    :param is_needed: whether variables at a path must be set; others read as empty then.
    :raises ConfigError: lists everything that is wrong, each with its path in the document.
    """
    if isinstance(document, Mapping):
        title, folder, content = "The query specification", Path.cwd(), document
    else:
        path = Path(document)
        title, folder, content = str(path), path.parent.absolute(), read_document(path)
    place = Place(os.environ if environ is None else environ, folder, is_needed=is_needed)
    values = _QUERY(content, place)
    _check_combinations(content, place)
    _check_mode(content, values, place)
    if values["query"] is not None:
        _check_module(values["query"], values["python_path"], place.at("query"))
    if place.problems:
        count = len(place.problems)
        raise ConfigError(
            f"{title} has {count} problem{'s' if count > 1 else ''}:\n  "
            + "\n  ".join(place.problems)
        )
    return QuerySpec(**values)


# -- the table of fields ----------------------------------------------------------------------


def _interval(value: Any, place: Place) -> str | None:
    interval = text(value, place)
    if interval is not None:
        try:
            parse_interval_ms(interval)
        except ConfigError as exc:
            place.report(f"{interval!r} is not an interval; {exc.hint or 'write 1 second'}")
    return interval


def _flag(value: Any, place: Place) -> bool | None:
    if value is not True:
        place.report(f"must be true, not {value!r}")
        return None
    return True


_ENGINE, _SPARK = "engine", "spark"
_TRIGGERS = {
    "continuous": Field(_interval),
    "processingTime": Field(_interval),
    "availableNow": Field(_flag),
    "once": Field(_flag),
    "realTime": Field(_interval),
}


def _trigger(value: Any, place: Place) -> tuple[str, str | bool] | None:
    read = section(_TRIGGERS)(value, place)
    if read is None:
        return None
    if len(value) != 1:
        place.report(f"must have exactly one of {', '.join(_TRIGGERS)}")
    return next(((kind, given) for kind, given in read.items() if given is not None), None)


def _query(value: Any, place: Place) -> str | None:
    query = text(value, place)
    if query is not None and not re.fullmatch(r"[\w.]+:\w+", query):
        place.report(f'must be "module:function", not {query!r}')
        return None
    return query


_WATERMARK = section(
    {
        "column": Field(text, required=True),
        "delay": Field(_interval, required=True),
    }
)


def _watermark(value: Any, place: Place) -> tuple[str, str] | None:
    read = _WATERMARK(value, place)
    return read and (read["column"], read["delay"])


_SOURCE = section(
    {
        "format": Field(text, required=True),
        "options": Field(options, default={}),
        "schema": Field(text),
        "watermark": Field(_watermark),
        "connection": Field(report_connection),
    }
)
_SINK = section(
    {
        "format": Field(text, required=True),
        "options": Field(options, default={}),
        "partition_by": Field(names, default=()),
        "output_mode": Field(choice(*ALL_MODES)),
        "connection": Field(report_connection),
    }
)


def _source(value: Any, place: Place) -> SourceSpec | None:
    read = _SOURCE(value, place)
    return read and SourceSpec(read["format"], read["options"], read["schema"], read["watermark"])


def _sink(value: Any, place: Place) -> SinkSpec | None:
    read = _SINK(value, place)
    return read and SinkSpec(
        read["format"], read["options"], read["partition_by"], read["output_mode"]
    )


_QUERY = section(
    {
        "name": Field(text),
        "source": Field(_source),
        "sql": Field(verbatim),
        "query": Field(_query),
        "sink": Field(_sink),
        "trigger": Field(_trigger),
        "mode": Field(choice(_ENGINE, _SPARK)),
        "checkpoint_location": Field(text),
        "checkpoint_storage": Field(options, default={}),
        "connections": Field(several_options, default={}),
        "conf": Field(settings, default={}),
        "python_path": Field(folders, default=()),
        "log_format": Field(choice(*FORMATS)),
    }
)


def _check_combinations(content: Mapping[str, Any], place: Place) -> None:
    given = {key for key, value in content.items() if value is not None}
    if "query" in given:
        for key in sorted(given & {"source", "sql"}):
            place.at(key).report("cannot be given together with query, which reads its own")
        return
    if "connections" in given:
        place.at("connections").report("is for the function of query; say source.connection")
    if "source" not in given:
        place.at("source").report("is missing (or query)")
    for key in ("sink", "checkpoint_location"):
        if key not in given:
            place.at(key).report("is missing")


def _check_mode(content: Mapping[str, Any], values: Mapping[str, Any], place: Place) -> None:
    trigger, mode = values["trigger"], values["mode"]
    if mode == _ENGINE and trigger is not None and trigger[0] != "continuous":
        place.at("mode").report(f"the engine does not run the trigger {trigger[0]}; say spark")
    if mode == _SPARK and content.get("trigger") is None and content.get("query") is None:
        place.at("trigger").report("is missing: Spark has no default that fits")


def _check_module(query: str, python_path: tuple[Path, ...], place: Place) -> None:
    """Only looks for it: importing it here would run the user's code."""
    module = query.partition(":")[0].partition(".")[0]
    searched = [*map(str, python_path), *sys.path]
    if module not in sys.builtin_module_names and PathFinder.find_spec(module, searched) is None:
        place.report(
            f"there is no module {module} on the Python path; add its folder to python_path"
        )
