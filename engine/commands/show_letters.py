"""``dead-letters``: the newest records that a query has put aside, and why."""

from __future__ import annotations

from argparse import Namespace

from engine.base.text_tables import format_table
from engine.checkpoint.whose_state import is_batch
from engine.commands.result import DONE, FAILED, Result
from engine.commands.status import open_checkpoint
from engine.history.measures import is_sparks
from engine.sinks.newest_letters import newest_letters

_CHARACTERS = 80
"""Of a record and of an error, in the table; with ``--json`` there is all that is kept of them."""
_NOT_YET = "No epoch has a report yet, which would tell where they are."
_NONE = "The query keeps none: see the options onBadRecord, onLateRecord and deadLetterPath."
_NONE_OF_SPARKS = (
    "Spark runs this query, and has no dead letters: a record that it cannot read fails the query, "
    "or is handled as the source's own options say (mode of JSON and CSV files, for example)."
)


def dead_letters(args: Namespace) -> Result:
    """Show them, the newest first, without secrets."""
    checkpoint = open_checkpoint(args.checkpoint)
    report = next(reversed(checkpoint.progress.read()), None)
    if report is None:
        text = _NONE_OF_SPARKS if is_batch(checkpoint, checkpoint.committed_epoch()) else _NOT_YET
        return Result({"path": None, "letters": [], "error": None}, text)
    found = newest_letters(report, args.last, args.last)
    if found is None:
        text = _NONE_OF_SPARKS if is_sparks(report) else _NONE
        return Result({"path": None, "letters": [], "error": None}, text)
    if found["error"] is not None:
        return Result(found, f"{found['path']} cannot be read: {found['error']}", FAILED)
    if not found["letters"]:
        return Result(found, f"No record was put aside in {found['path']}.")
    rows = [
        [
            letter.get("epoch"),
            letter.get("partition"),
            letter.get("offset"),
            _cut(letter.get("record")),
            _cut(letter.get("error")),
        ]
        for letter in found["letters"]
    ]
    table = format_table(["epoch", "partition", "offset", "record", "why"], rows)
    return Result(found, f"{table}\n\nThe newest {len(rows)} of {found['path']}.", DONE)


def _cut(text: str | None) -> str | None:
    """On one line."""
    if text is None:
        return None
    line = " ".join(text.split())
    return line if len(line) <= _CHARACTERS else f"{line[:_CHARACTERS]}..."
