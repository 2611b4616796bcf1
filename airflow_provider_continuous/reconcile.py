"""What is wanted against what runs: one function decides, and all operators are its policies.

=========================  ==========  ======================  ==================================
the document               refuse      adopt                   upgrade
=========================  ==========  ======================  ==================================
is the same                keep        keep                    keep
has other settings         warn        warn                    upgrade
has other rows             refuse      warn                    upgrade
has another source, sink   refuse      warn                    refuse, unless the document has the
                                                               option ``allowChangedQuery``
=========================  ==========  ======================  ==================================

What runs is told by the note of its submission. Of a run that nobody has submitted from Airflow
only the fingerprint in its checkpoint is known: then source and sink are compared, and no more.
Secrets are neither kept nor compared; of a sink's secret URL its place is, where both tell it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, get_args

from airflow_provider_continuous.deploy.described import (
    DEPLOY,
    is_of_submission,
    says_how_it_runs,
)
from engine.pipeline.identity import OTHER_SINK, OTHER_SOURCE, Change
from engine.query.spec import is_secret, without_secrets

OnChanged = Literal["refuse", "adopt", "upgrade"]
"""What to do when the query that runs is of another document."""

_WHY: Final = {"source": OTHER_SOURCE, "sink": OTHER_SINK}
_NOTHING: Final = "nothing"
_ALLOWED: Final = "options.allowchangedquery"


class Decision(Enum):
    """What becomes of the run that there is."""

    KEEP = "keep"
    WARN = "warn"
    """Keep it, and say what is different."""
    REFUSE = "refuse"
    UPGRADE = "upgrade"
    """Let it drain, and start what is wanted."""


@dataclass(frozen=True)
class Verdict:
    """A decision and why.

    :param changes: from what runs to what is wanted; what the engine would refuse comes first.
    :param is_known: False: only source and sink could be compared.
    """

    decision: Decision
    changes: tuple[Change, ...] = ()
    is_known: bool = True

    @property
    def listed(self) -> str:
        """The changes, for people."""
        return "; ".join(map(str, self.changes))


def check_on_changed(on_changed: str) -> OnChanged:
    """Return it.

    :raises ValueError: there is no such policy.
    """
    if on_changed not in get_args(OnChanged):
        raise ValueError(f"on_changed is {on_changed!r}; it is refuse, adopt or upgrade.")
    return on_changed  # type: ignore[return-value]  # it is one of them


def reconcile(
    wanted: Mapping[str, str],
    noted: Mapping[str, str] | None,
    fingerprint: Mapping[str, Any] | None,
    on_changed: OnChanged,
) -> Verdict:
    """Compare the wanted document with the running one, and decide.

    :param wanted: as :func:`airflow_provider_continuous.deploy.described.describe_submission` has
        it; ``noted`` is the running one's, None if nobody has noted it.
    :param fingerprint: in the running one's checkpoint, if there is one.
    """
    recorded = _recorded(wanted, fingerprint)
    # An earlier release has noted what it did not know for a secret.
    old: Mapping[str, str] = without_secrets(noted) if noted is not None else recorded
    if noted is None:
        wanted = {part: text for part, text in wanted.items() if part in recorded}
    elif DEPLOY not in noted:  # by an earlier release
        wanted = {part: text for part, text in wanted.items() if not is_of_submission(part)}
    changes = [
        Change(
            part,
            old.get(part, _NOTHING),
            wanted.get(part, _NOTHING),
            _WHY[part.partition(".")[0]] if _is_identity(part, recorded) else "",
        )
        for part in dict.fromkeys([*old, *wanted])
        if old.get(part) != wanted.get(part)
        and not (is_secret(part, wanted) and (part not in old or part not in wanted))
    ]
    changes.sort(key=lambda change: (change.is_safe, says_how_it_runs(change.part)))
    allowed = wanted.get(_ALLOWED, "").lower() == "true"
    return Verdict(_decide(changes, on_changed, allowed), tuple(changes), noted is not None)


def _decide(changes: Sequence[Change], on_changed: OnChanged, allowed: bool) -> Decision:
    if not changes:
        return Decision.KEEP
    if on_changed == "upgrade":
        unsafe = any(not change.is_safe for change in changes)
        return Decision.REFUSE if unsafe and not allowed else Decision.UPGRADE
    if on_changed == "adopt" or all(says_how_it_runs(change.part) for change in changes):
        return Decision.WARN
    return Decision.REFUSE


def _is_identity(part: str, recorded: Mapping[str, str]) -> bool:
    return part in ("source.format", "sink.format") or part in recorded


def _recorded(wanted: Mapping[str, str], fingerprint: Mapping[str, Any] | None) -> dict[str, str]:
    """What a fingerprint and a document both say: what a connection or a variable stands for is
    only in the first."""
    if fingerprint is None:
        return {}
    sources = fingerprint.get("sources") or []
    found: dict[str, str] = {}
    for role, connector in (
        ("source", sources[0] if len(sources) == 1 else {}),
        ("sink", fingerprint.get("sink") or {}),
    ):
        if "format" in connector:
            found[f"{role}.format"] = str(connector["format"])
        for name, value in (connector.get("options") or {}).items():
            found[f"{role}.options.{name}"] = str(value)
    return {part: text for part, text in found.items() if "${" not in wanted.get(part, "${")}
