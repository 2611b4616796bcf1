"""A query's pipeline as boxes, from left to right: sources, stages that keep state, sink.

What it is made of is told by the fingerprint that its last start has left in the checkpoint, and
rows and times by the last progress report. Of a query that has only reports, those of Spark itself
for example, there are boxes without steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.checkpoint.summary import rows_written
from engine.history.measures import is_sparks, rate_of
from engine.progress.report import busy_share
from engine.redaction.logs import redact

STEP_CHARACTERS = 160
_OBJECT = re.compile(r"(?:\w+\.)+(\w+?)(?:Table|Sink)?\$?@[0-9a-f]+")
"""What Java says of an object that says nothing of itself: its class, and where it lies."""


def picture_of(
    fingerprint: Mapping[str, Any] | None, report: Mapping[str, Any]
) -> list[list[dict[str, Any]]]:
    """Return the columns, each a list of boxes ``{kind, title, detail, steps, numbers}``.

    ``numbers`` are triples of a label, a value that may be None, and its kind: ``count``, ``ms``,
    ``bytes`` or ``share``. Empty if neither is told.
    """
    sources = _sources(fingerprint, report)
    columns = [
        sources,
        *([stage] for stage in _stages(fingerprint, report)),
        _sink(fingerprint, report),
    ]
    return [column for column in columns if column]


def _sources(
    fingerprint: Mapping[str, Any] | None, report: Mapping[str, Any]
) -> list[dict[str, Any]]:
    told: Sequence[Mapping[str, Any]] = report.get("sources") or []
    parts: Sequence[Mapping[str, Any]] = (fingerprint or {}).get("sources") or []
    times = report.get("stages") or []
    boxes = []
    for number in range(max(len(told), len(parts))):
        part = parts[number] if number < len(parts) else {}
        seen = told[number] if number < len(told) else {}
        boxes.append(
            {
                "kind": "source",
                "title": part.get("format") or redact(str(seen.get("description", "source"))),
                "detail": _where(part.get("options") or {}),
                "steps": _steps(part.get("steps")),
                "numbers": [
                    ("rows", seen.get("numInputRows"), "count"),
                    ("rows/s", rate_of(seen), "count"),
                    ("epoch open", report.get("batchDuration"), "ms"),
                    *_busy(times[number : number + 1]),
                ],
            }
        )
    return boxes


def _stages(
    fingerprint: Mapping[str, Any] | None, report: Mapping[str, Any]
) -> list[dict[str, Any]]:
    operators = list(report.get("stateOperators") or [])
    if operators and is_sparks(report):  # Spark tells them from the sink on
        return [_keeps(seen, str(seen.get("operatorName"))) for seen in reversed(operators)]
    times = (report.get("stages") or [])[len(report.get("sources") or []) :]
    boxes = []
    for number, stage in enumerate((fingerprint or {}).get("stages") or []):
        seen = operators[number] if number < len(operators) else {}
        state = stage.get("state") or {}
        boxes.append(
            _keeps(
                seen,
                str(seen.get("operatorName") or state.get("kind") or "state"),
                _steps([f"{name}: {_told(value)}" for name, value in state.items()])
                + _steps(stage.get("steps")),
                _busy(times[number : number + 1]),
            )
        )
    return boxes


def _keeps(
    seen: Mapping[str, Any], title: str, steps: Sequence[str] = (), busy: Sequence[Any] = ()
) -> dict[str, Any]:
    """:param seen: what the report tells of the operator: the engine its snapshot, Spark the memory
    that it uses."""
    return {
        "kind": "keeps",
        "title": redact(title),
        "detail": "",
        "steps": list(steps),
        "numbers": [
            ("tasks", seen.get("numShufflePartitions"), "count"),
            ("rows kept", seen.get("numRowsTotal"), "count"),
            ("snapshot", seen.get("snapshotBytes"), "bytes"),
            ("memory", seen.get("memoryUsedBytes"), "bytes"),
            ("late rows", seen.get("numRowsDroppedByWatermark"), "count"),
            *busy,
        ],
    }


def _sink(fingerprint: Mapping[str, Any] | None, report: Mapping[str, Any]) -> list[dict[str, Any]]:
    part = (fingerprint or {}).get("sink") or {}
    seen = report.get("sink") or {}
    if not part and not seen:
        return []
    duration = report.get("durationMs") or {}
    return [
        {
            "kind": "sink",
            "title": part.get("format") or _name(str(seen.get("description", "sink"))),
            "detail": _where(part.get("options") or {}),
            "steps": [],
            "numbers": [
                ("rows", rows_written(report), "count"),
                ("commit", duration.get("commitSink"), "ms"),
            ],
        }
    ]


def _name(description: str) -> str:
    """Spark's sink ``org.apache.spark...ConsoleTable$@72eaa0c8`` is ``console``."""
    found = _OBJECT.fullmatch(description)
    return redact(description) if found is None else found[1].lower()


def _busy(told: Sequence[Mapping[str, Any]]) -> list[tuple[str, Any, str]]:
    """What the tasks of a box spent the epoch with, if it is told: each time is that of all of them
    together. Those whose steps and writer are busy for all of it hold the query up."""
    numbers: list[tuple[str, Any, str]] = []
    for each in told:
        numbers += [
            ("steps", each["transformingMs"], "ms"),
            ("writing or sending", each["writingMs"], "ms"),
            ("busy", busy_share(each), "share"),
        ]
    return numbers


def _where(options: Mapping[str, Any]) -> str:
    """What tells which data it is: the fingerprint has no other options, and no secrets."""
    return redact(", ".join(f"{name} = {value}" for name, value in options.items()))


def _told(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _steps(steps: Sequence[Any] | None) -> list[str]:
    # Spark's own name for what a query calls nothing.
    found = [
        redact(str(step)).replace("__auto_generated_subquery_name.", "") for step in steps or []
    ]
    return [
        step if len(step) <= STEP_CHARACTERS else f"{step[:STEP_CHARACTERS]}..." for step in found
    ]
