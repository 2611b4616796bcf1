"""What a query is made of, and whether another one may go on from its checkpoint.

Offsets belong to a source, epochs to a sink: with others, a checkpoint means something else, and
rows are lost or repeated without an error. Filters and projections may change at any epoch.

=====================  =========================================================================
part                   a change of it
=====================  =========================================================================
sources                another number of them is unsafe; with several, ``source 1``, ``source 2``
source.format          unsafe
source.options         unsafe, but for those that the reader names in ``tuningOptions``
source.schema          safe
source.steps           safe: new rows are computed in the new way
stages                 another number of steps that keep state is unsafe, and so is another one, or
                       one that keeps something else, or the same behind an exchange that there
                       was not: ``stage 1``, ``stage 2``
stage.steps            safe, as those of a source
time_zone              safe, likewise
schema                 of the rows that reach the sink. Safe for a sink that keeps none; unsafe for
                       one that tells columns by position
                       (:class:`engine.sinks.builtin_sinks.Columns`); else safe as long as known
                       columns keep their types
sink.format            unsafe
sink.options           unsafe, but for those that the writer names in ``tuningOptions``
=====================  =========================================================================

Secrets are neither stored nor compared: options that look like one are left out, and what looks
like one in other options, or in steps, is hidden.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from engine.base.options import KEYS_STAY_IN_PARTITIONS
from engine.expressions.types import sql_name
from engine.pipeline.identity import (
    OTHER_SINK,
    OTHER_SOURCE,
    Change,
    clean_options,
    clean_steps,
    identity,
    is_told_as,
)
from engine.pipeline.kept_state import what_is_kept
from engine.pipeline.pipeline import Pipeline, SourceRelation
from engine.sinks.builtin_sinks import Columns, sink_kind

_NONE: Final = "nothing"


def fingerprint(
    streams: Sequence[tuple[Pipeline, Collection[str]]],
    stages: Sequence[Pipeline] = (),
    *,
    sink_format: str,
    sink_options: Mapping[str, str],
    sink_tuning: Collection[str],
) -> dict[str, Any]:
    """The parts of a query, as JSON without secrets.

    :param streams: each with those options of its source, in any case, that do not tell which data
        it reads.
    :param stages: the pipelines behind exchanges.
    :param sink_tuning: options of the sink that do not tell where the data goes.
    """
    pipelines = [*(pipeline for pipeline, _ in streams), *stages]
    first = next(each for each in pipelines if each.exchange is None)
    keeping = [_stage(each) for each in pipelines if each.kept is not None]
    kept = {"stages": keeping} if keeping else {}
    return {
        "sources": [_source(pipeline, tuning) for pipeline, tuning in streams],
        **kept,
        "time_zone": first.session_timezone,
        "schema": _columns(first.schema),
        "sink": {
            "format": sink_format.lower(),
            "options": identity(sink_options, sink_tuning),
        },
    }


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """All differences of two fingerprints; the unsafe ones first.

    :param old: may be of an earlier release, which has hidden less.
    """
    changes = [
        *_sources(old["sources"], new["sources"]),
        *_stages(old.get("stages", []), new.get("stages", [])),
        *_connector("sink", old["sink"], new["sink"], OTHER_SINK),
        *_changed("time_zone", old["time_zone"], new["time_zone"]),
        *_schema(old, new),
    ]
    return sorted(changes, key=lambda change: change.is_safe)


def without_tuning(
    old: Mapping[str, Any],
    streams: Sequence[Collection[str]],
    sink: Collection[str],
) -> dict[str, Any]:
    """A fingerprint of an earlier release, for which an option may still have told one query from
    another.

    :param streams: of each the options that do not; ``sink`` those of the sink.
    """
    sources = list(old["sources"])
    for index, tuning in enumerate(streams[: len(sources)]):
        sources[index] = _left(sources[index], tuning)
    return {**old, "sources": sources, "sink": _left(old["sink"], sink)}


def _left(connector: Mapping[str, Any], tuning: Collection[str]) -> dict[str, Any]:
    ignored = {name.lower() for name in tuning}
    options = {key: text for key, text in connector["options"].items() if key not in ignored}
    return {**connector, "options": options}


def _sources(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
) -> Iterator[Change]:
    if len(old) != len(new):
        counts = f"{len(old)} of them", f"{len(new)} of them"
        yield Change("sources", *counts, "each has its own line in the offset log")
        return
    for number, (before, after) in enumerate(zip(old, new, strict=True), 1):
        name = "source" if len(new) == 1 else f"source {number}"
        yield from _connector(name, before, after, OTHER_SOURCE)
        yield from _changed(f"{name}.schema", before["schema"], after["schema"])
        yield from _changed(f"{name}.steps", clean_steps(before["steps"]), after["steps"])


def _source(pipeline: Pipeline, tuning: Collection[str]) -> dict[str, Any]:
    source = pipeline.source
    assert isinstance(source, SourceRelation), "a stream reads one"
    return {
        "format": source.format.lower(),
        "options": identity(source.options, tuning),
        "schema": _columns(source.schema),
        "steps": clean_steps(pipeline.descriptions),
    }


def _stage(pipeline: Pipeline) -> dict[str, Any]:
    assert pipeline.kept is not None, "a stage begins with what it is for"
    state = what_is_kept(pipeline.kept)
    if pipeline.stage is None:  # what else it does is a matter of its source's steps
        return {"state": {**state, KEYS_STAY_IN_PARTITIONS: "true"}, "steps": []}
    return {
        "state": state,
        # What it keeps is told by the state, of the step itself this is another wording.
        "steps": clean_steps(pipeline.descriptions[1:]),
    }


def _stages(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    if len(old) != len(new):
        counts = f"{len(old)} of them", f"{len(new)} of them"
        yield Change("steps with state", *counts, "what they know is of the query as it was")
        return
    for number, (before, after) in enumerate(zip(old, new, strict=True), 1):
        name = "stage" if len(new) == 1 else f"stage {number}"
        state, wanted = before["state"], after["state"]
        for part in dict.fromkeys([*state, *wanted]):
            why = "its state is of the other one"
            yield from _changed(f"{name}.{part}", state.get(part), wanted.get(part), why)
        yield from _changed(f"{name}.steps", clean_steps(before["steps"]), after["steps"])


def _connector(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], why: str
) -> Iterator[Change]:
    yield from _changed(f"{kind}.format", before["format"], after["format"], why)
    if before["format"] == after["format"]:
        old, new = clean_options(before["options"]), after["options"]
        for key in sorted({*old, *new}):
            # An earlier release has left out every key: that one is not there says nothing.
            known = key in old or "keyspace" not in key
            known = known and not is_told_as(old.get(key), new.get(key))
            part = f"{kind}.options.{key}"
            yield from _changed(part, old.get(key), new.get(key), why if known else "")


def _schema(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before, after = old["schema"], new["schema"]
    columns = sink_kind(new["sink"]["format"]).columns
    why = ""
    if new["sink"]["format"] != old["sink"]["format"] or columns is Columns.NOT_KEPT:
        why = ""  # another sink has nothing of this one's rows
    elif columns is Columns.BY_POSITION:
        why = "files without it are read by position"
    else:
        broken = [f"{name} {dtype}" for name, dtype in before.items() if after.get(name) != dtype]
        if broken:
            why = f"what is written already has {', '.join(broken)}"
    # Lists: the order of columns is a part of the schema.
    yield from _changed("schema", list(before.items()), list(after.items()), why)


def _changed(part: str, old: Any, new: Any, why: str = "") -> Iterator[Change]:
    if old != new:
        yield Change(part, _shown(old), _shown(new), why)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        value = list(value.items())
    if isinstance(value, list):
        items = (" ".join(each) if isinstance(each, list | tuple) else str(each) for each in value)
        return "; ".join(items) or _NONE
    return _NONE if value is None else str(value)


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: sql_name(field.type) for field in schema}
