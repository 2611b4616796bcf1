"""Zips and key tables that go along with submissions, in a folder beside the logs::

    <log-dir>/sent/engine-0f1e2d3c4b5a6978.zip
    <log-dir>/sent/engine-0f1e2d3c4b5a6978.zip.for/orders-5a3c9e01-20260131T235900.000000Z

Many submissions share one. Executors that come later read it, and Spark logs in anew with a key
table, so it stays as long as the log of any submission that it was sent with.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from airflow_provider_continuous.deploy.submission import LOG_SUFFIX, Submission

_FOLDER, _FOR = "sent", ".for"


def keep(submission: Submission, make: Callable[[Path], Path]) -> str:
    """Make a file, and note for whom; return its path.

    :param make: makes it in a folder, if it is not there, and returns its path.
    """
    shelf = submission.log_dir / _FOLDER
    path = make(shelf)
    note = path.with_name(path.name + _FOR) / submission.path("").name
    note.parent.mkdir(exist_ok=True, mode=0o700)
    note.touch()
    return str(path if path.exists() else make(shelf))  # removed meanwhile, before it was noted


def tidy_sent(log_dir: Path, tag: str, younger_s: float) -> list[tuple[Path, int]]:
    """Remove what is for nobody any more; return which files that were, and their sizes.

    :param tag: of a checkpoint: its submissions alone are looked for.
    :param younger_s: what is younger stays, for its submission may have no log yet.
    """
    removed = []
    for notes in (log_dir / _FOLDER).glob(f"*{_FOR}"):
        for note in notes.glob(f"*-{tag}-*"):
            if _is_old(note, younger_s) and not (log_dir / f"{note.name}{LOG_SUFFIX}").exists():
                note.unlink(missing_ok=True)
        file = notes.with_name(notes.name.removesuffix(_FOR))
        with suppress(OSError):  # it is for somebody, or another start was faster
            notes.rmdir()
            removed.append((file, file.stat().st_size))
            file.unlink()
    return removed


def _is_old(note: Path, younger_s: float) -> bool:
    try:
        return time.time() - note.stat().st_mtime > younger_s
    except FileNotFoundError:
        return False
