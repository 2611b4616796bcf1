"""The newest records that a query has put aside, without their secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from engine.base.json_text import load_object
from engine.checkpoint.storage.opening import open_storage
from engine.redaction.logs import redact, shown
from engine.sinks.files.file_sink_log import FOLDER, FileSinkLog

LETTERS_SHOWN = 20
FILES_MAX = 5
_TOLD = re.compile(r", dead letters: json\[(.+)\]$")
_TEXTS = ("source", "offset", "record", "error", "operator", "watermark")


def newest_letters(
    report: Mapping[str, Any],
    count: int = LETTERS_SHOWN,
    files_max: int = FILES_MAX,
    check: Callable[[str], None] = lambda path: None,
) -> dict[str, Any] | None:
    """Return ``{path, letters, error}``, the newest letter first.

    :param report: the last progress report: its sink tells where the letters are.
    :param count: so many at most, of so many files at most.
    :param check: raises where a folder or a file of it must not be read: that is the error then.
    :returns: None: the query keeps none.
    """
    told = _TOLD.search(str((report.get("sink") or {}).get("description", "")))
    if told is None:
        return None
    path = told[1]
    try:
        return {"path": path, "letters": _newest(path, count, files_max, check), "error": None}
    except Exception as error:  # of whichever storage
        return {"path": path, "letters": [], "error": redact(str(error))}


def _newest(
    path: str, count: int, files_max: int, check: Callable[[str], None]
) -> list[dict[str, Any]]:
    check(path)
    log, folder = FileSinkLog(open_storage(f"{path.rstrip('/')}/{FOLDER}")), open_storage(path)
    listing = log.listing()
    found: list[dict[str, Any]] = []
    seen: set[str] = set()  # an entry that was made of earlier ones has their files as well
    for epoch in sorted(listing, reverse=True):
        for line in reversed(log.lines(listing, epoch)):
            name = str(load_object(line)["path"]).rpartition("/")[2]
            if name in seen:
                continue
            if len(seen) == files_max or len(found) >= count:
                return found[:count]
            seen.add(name)
            check(f"{path.rstrip('/')}/{name}")
            try:
                content = folder.read(name)
            except FileNotFoundError:
                continue  # somebody has cleared it away
            found += [_letter(each) for each in reversed(content.splitlines()) if each.strip()]
    return found[:count]


def _letter(line: bytes) -> dict[str, Any]:
    try:
        letter = load_object(line)
    except ValueError:
        return {"error": "This line is no letter."}
    texts = {name: shown(str(letter[name])) for name in _TEXTS if letter.get(name) is not None}
    return {"epoch": letter.get("epoch"), "partition": letter.get("partition"), **texts}
