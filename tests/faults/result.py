"""What a level of the fault tests has found, as one record of the same form for all levels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_OF_THE_PATCH = ("AttributeError", "KeyError", "NameError", "TypeError")


@dataclass
class LevelResult:
    """:param faults: by kind.
    :param records: how many were sent through.
    :param lost: records that never arrived.
    :param repeated: records that arrived more than once in an exactly-once sink.
    :param torn: looks of a concurrent reader that saw a part of an epoch.
    :param zombie_writes: visible writes of a run that another one had fenced.
    :param recovery_ms: from the kill of a Python worker of Spark to the first new record.
    :param restart_ms: from the kill of a whole process to the first new commit, start included.
    :param outcomes: what came of the faults, where a level tells them apart.
    :param figures: what else a level has measured.
    :param seeds: with which it can be run again.
    :param broken: what went wrong, for people; empty if every promise was kept.
    :param skipped: why the level did not run here; None if it did.
    """

    level: str
    faults: Counter[str] = field(default_factory=Counter)
    records: int = 0
    lost: int = 0
    repeated: int = 0
    torn: int = 0
    zombie_writes: int = 0
    recovery_ms: list[float] = field(default_factory=list)
    restart_ms: list[float] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    figures: dict[str, int] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    mutants: dict[str, str | None] = field(default_factory=dict)
    seconds: float = 0.0
    skipped: str | None = None

    @property
    def kept(self) -> bool:
        """Whether every promise was kept, and every mutant caught."""
        caught = all(by is not None for by in self.mutants.values())
        counts = self.lost, self.repeated, self.torn, self.zombie_writes
        return caught and not self.broken and not any(counts)

    def percentiles(self) -> tuple[float | None, float | None]:
        """The median and the 99th percentile of what the level measures."""
        measured = self.recovery_ms or self.restart_ms
        return percentile(measured, 50), percentile(measured, 99)

    def blame(self, found: str) -> None:
        """Note a broken promise, and count it by its first word."""
        self.broken.append(found)
        kind = found.partition(":")[0].rpartition(" ")[2]
        if kind == "lost":
            self.lost += 1
        elif kind == "repeated":
            self.repeated += 1


def fits_no_more(found: str | None) -> bool:
    """Whether a mutant was caught only because it does not fit the code: that proves nothing."""
    return found is not None and any(error in found for error in _OF_THE_PATCH)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The value that ``percent`` of all are not above; None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def summary(results: Sequence[LevelResult]) -> dict[str, Any]:
    """All levels in one object: the last line of the output.

    Its recovery is that of a killed worker on local Spark, if that was among the levels.
    """
    local = [result for result in results if result.level.startswith("L4 local[")]
    recovery = [ms for result in local or results for ms in result.recovery_ms]
    mutants = [by for result in results for by in result.mutants.values()]
    p50, p99 = percentile(recovery, 50), percentile(recovery, 99)
    return {
        "faults": sum(result.faults.total() for result in results),
        "records": sum(result.records for result in results),
        "lost": sum(result.lost for result in results),
        "repeated": sum(result.repeated for result in results),
        "torn": sum(result.torn for result in results),
        "zombie_writes": sum(result.zombie_writes for result in results),
        "mutants": len(mutants),
        "mutants_caught": sum(by is not None for by in mutants),
        "recovery_ms_p50": None if p50 is None else round(p50, 1),
        "recovery_ms_p99": None if p99 is None else round(p99, 1),
        "broken": sum(len(result.broken) for result in results),
        "seeds": {result.level: result.seeds for result in results if result.seeds},
        "levels": [result.level for result in results if result.skipped is None],
        "seconds": round(sum(result.seconds for result in results), 1),
    }


def table(results: Sequence[LevelResult]) -> str:
    """For people."""
    columns = ("faults", "records", "lost", "repeated", "torn", "zombie", "p50 ms", "p99 ms")
    lines = [f"{'level':<32}" + "".join(f"{name:>10}" for name in columns)]
    for result in results:
        if result.skipped is not None:
            lines.append(f"{result.level:<32}  not run here: {result.skipped}")
            continue
        p50, p99 = result.percentiles()
        values: list[Any] = [result.faults.total(), result.records, result.lost, result.repeated]
        values += [result.torn, result.zombie_writes]
        values += ["-" if value is None else f"{value:.1f}" for value in (p50, p99)]
        lines.append(f"{result.level:<32}" + "".join(f"{value:>10}" for value in values))
        for kind, count in sorted(result.faults.items()):
            lines.append(f"    {kind:<28}{count:>10}")
        for outcome, count in sorted(result.outcomes.items()):
            lines.append(f"    → {outcome:<26}{count:>10}")
        for what, figure in result.figures.items():
            lines.append(f"    {what:<56}{figure:>14,}")
        for found in result.broken:
            lines.append(f"    BROKEN  {found}")
    mutants = [
        (result.level, name, by) for result in results for name, by in result.mutants.items()
    ]
    if mutants:
        caught = sum(by is not None for *_, by in mutants)
        lines.append(f"mutants: {caught} of {len(mutants)} caught")
        lines += [f"    {level}: {name:<44} {by or 'NOT CAUGHT'}" for level, name, by in mutants]
    return "\n".join(lines)


def to_json(results: Sequence[LevelResult]) -> str:
    """The last line of the output."""
    return json.dumps(summary(results))
