"""The newest records that a query has put aside, without their secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engine.base.json_text import load_object
from engine.checkpoint.storage.opening import open_storage
from engine.redaction.logs import redact, shown
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog

LETTERS_SHOWN = 20
FILES_MAX = 5
_TOLD = re.compile(r", dead letters: json\[(.+)\]$")
_TEXTS = ("source", "offset", "record", "error", "operator", "watermark")


def newest_letters(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return ``{path, letters, error}``, the newest letter first.

    :param report: the last progress report: its sink tells where the letters are.
    :returns: None: the query keeps none.
    """
    told = _TOLD.search(str((report.get("sink") or {}).get("description", "")))
    if told is None:
        return None
    path = told[1]
    try:
        return {"path": path, "letters": _newest(path), "error": None}
    except Exception as error:  # of whichever storage
        return {"path": path, "letters": [], "error": redact(str(error))}


def _newest(path: str) -> list[dict[str, Any]]:
    log, folder = FileSinkLog(open_storage(f"{path.rstrip('/')}/{FOLDER}")), open_storage(path)
    listing = log.listing()
    found: list[dict[str, Any]] = []
    looked_into = 0
    for epoch in sorted(listing, reverse=True):
        for line in reversed(log.lines(listing, epoch)):
            name = str(load_object(line)["path"]).rpartition("/")[2]
            if looked_into == FILES_MAX or len(found) >= LETTERS_SHOWN:
                return found[:LETTERS_SHOWN]
            looked_into += 1
            try:
                content = folder.read(name)
            except FileNotFoundError:
                continue  # somebody has cleared it away
            found += [_letter(each) for each in reversed(content.splitlines()) if each.strip()]
    return found[:LETTERS_SHOWN]


def _letter(line: bytes) -> dict[str, Any]:
    try:
        letter = load_object(line)
    except ValueError:
        return {"error": "This line is no letter."}
    texts = {name: shown(str(letter[name])) for name in _TEXTS if letter.get(name) is not None}
    return {"epoch": letter.get("epoch"), "partition": letter.get("partition"), **texts}
