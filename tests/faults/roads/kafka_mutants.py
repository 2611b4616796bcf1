"""Wrong versions of what makes Kafka to Kafka exactly once; L5 has to catch each of them.

Each is put in place in the process that runs the query (:mod:`tests.faults.roads.driver`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from engine.execution import attempt
from engine.sinks.kafka import task_writers
from engine.sinks.kafka.data_source import KafkaWriter
from engine.sources.kafka.partition_reader import KafkaPartitionsReader
from tests.faults.roads.mutants import COMMITTED_EARLY, commit_before_log

GONE = "a transaction that is gone is taken for committed"
BLINDLY = "what is not open any more is written again, blindly"
FORGETS = "an epoch that is run again forgets what the sink has"
MUTANTS: dict[str, Callable[[], None]] = {COMMITTED_EARLY: commit_before_log}


def mutant(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def note(patch: Callable[[], None]) -> Callable[[], None]:
        MUTANTS[name] = patch
        return patch

    return note


def _set(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


@mutant(GONE)
def _() -> None:
    right = KafkaWriter._look

    def look(self: Any, found: Any) -> Any:
        open_, _ = right(self, found)
        return open_, {task: each for task, each in found.items() if task not in open_}

    _set(KafkaWriter, "_look", look)


@mutant(BLINDLY)
def _() -> None:
    right = KafkaWriter._look

    def look(self: Any, found: Any) -> Any:
        open_, _ = right(self, found)
        return open_, {}

    _set(KafkaWriter, "_look", look)


@mutant(FORGETS)
def _() -> None:
    right = attempt.plan_restart
    _set(attempt, "plan_restart", lambda *given: replace(right(*given), done=frozenset()))


@mutant("all tasks have the same transactional ids")
def _() -> None:
    right = task_writers.ExactlyOnceWriter.open

    def open_(self: Any, context: Any) -> None:
        right(self, replace(context, task=0))

    _set(task_writers.ExactlyOnceWriter, "open", open_)


@mutant("an epoch is prepared before its records are acknowledged")
def _() -> None:
    _set(task_writers.Sender, "finish", lambda self: None)


@mutant("offsets are counted, and markers of transactions forgotten")
def _() -> None:
    def take(self: Any, at: Any, messages: list[Any], has_events: bool) -> Any:
        records = [each for each in messages if each.error() is None]
        if self._until is not None:
            records = [each for each in records if each.offset() < self._until[at]]
        self._positions[at] += len(records)
        return self._columns.batch(at, records) if records else None

    _set(KafkaPartitionsReader, "_take", take)


@mutant("tasks end their transactions themselves, as soon as they are prepared")
def _() -> None:
    right, end = task_writers._Producer.prepared, task_writers._Producer.end

    def prepared(self: Any, records: int) -> Any:
        message = right(self, records)
        end(self)
        return message

    _set(task_writers._Producer, "prepared", prepared)
    _set(task_writers._Producer, "end", lambda self: None)


@mutant("what is prepared is fenced before it is committed, and taken for committed")
def _() -> None:
    right = KafkaWriter.bind

    def bind(self: Any, context: Any) -> None:
        right(self, context)
        self.fenceTasks()

    _set(KafkaWriter, "bind", bind)
    MUTANTS[GONE]()
