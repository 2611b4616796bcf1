"""The page of all queries: which of them, in which order, and which part of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

PAGE_SIZE = 50
TROUBLE = ("UNREADABLE", "FAILED", "LOST", "STALLED", "RESTARTING", "WAITING")
"""The states that somebody has to look at, the worst first."""
GROUPS = ("running", "trouble", "ended")
COLUMNS = {
    "name": "name",
    "state": None,
    "epoch": "epoch",
    "commit": "lag_s",
    "rows": "rows_per_second",
    "lag": "source_lag",
    "p99": "latency_p99_ms",
    "restarts": "restarts",
    "dag": None,
}
"""What can be sorted by → the field of a query; None: see :func:`_key`."""

Query = Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """What the address of the page asks for.

    :param text: a part of the name, the location, the DAG or the error, in any case.
    :param state: a state, or one of :data:`GROUPS`; empty: all.
    :param sort: one of :data:`COLUMNS`, with ``-`` before it from the highest down.
    :param page: from 1.
    """

    text: str = ""
    state: str = ""
    dag: str = ""
    sort: str = "state"
    page: int = 1

    def address(self, **changes: Any) -> str:
        """Return the query string of this, or of this with changes; defaults are left out."""
        changed = replace(self, **changes)
        asked = {
            name: value for name, value in vars(changed).items() if value != getattr(_DEFAULT, name)
        }
        return "?" + urlencode(asked)

    def sorted_by(self, column: str) -> str:
        """Return the address with this order; with the opposite one, if this is the order now."""
        return self.address(sort=f"-{column}" if self.sort == column else column, page=1)


_DEFAULT = Wanted()


def select(queries: Sequence[Query], wanted: Wanted) -> dict[str, Any]:
    """Return ``{rows, found, page, pages}``; a page that is not there is the last one."""
    found = [query for query in queries if _is_wanted(query, wanted)]
    column, down = wanted.sort.lstrip("-"), wanted.sort.startswith("-")
    if column not in COLUMNS:
        column = _DEFAULT.sort
    found.sort(key=lambda query: str(query["name"]).lower())
    known = [query for query in found if _key(query, column) is not None]
    unknown = [query for query in found if _key(query, column) is None]
    known.sort(key=lambda query: _key(query, column), reverse=down)
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(max(1, wanted.page), pages)
    rows = [*known, *unknown][(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return {"rows": rows, "found": len(found), "page": page, "pages": pages}


def group_of(state: str) -> str:
    """Return one of :data:`GROUPS`."""
    if state in TROUBLE:
        return "trouble"
    return "ended" if state in ("STOPPED", "UNKNOWN") else "running"


def rank(state: str) -> tuple[int, str]:
    """Trouble first, the worst of it at the top, then what runs, then what has ended."""
    place = TROUBLE.index(state) if state in TROUBLE else len(TROUBLE)
    return place + (group_of(state) == "ended"), state


def _is_wanted(query: Query, wanted: Wanted) -> bool:
    if wanted.state and wanted.state not in (query["state"], group_of(query["state"])):
        return False
    dags = [owner["dag_id"] for owner in query.get("owners", ())]
    if wanted.dag and wanted.dag not in dags:
        return False
    texts = (query["name"], query["checkpoint_location"], query.get("error"), *dags)
    return wanted.text.strip().lower() in "\n".join(str(text or "") for text in texts).lower()


def _key(query: Query, column: str) -> Any:
    if column == "state":
        return rank(query["state"])
    if column == "dag":
        owners = query.get("owners")
        return owners[0]["dag_id"].lower() if owners else None
    value = query.get(str(COLUMNS[column]))
    return value.lower() if isinstance(value, str) else value
