"""What the starts of a query leave on a machine, and how long it stays::

    <log-dir>/orders-5a3c9e01-20260131T235900.000000Z.log    what a driver or a standby has written
    <log-dir>/orders-5a3c9e01-20260131T235900.000000Z.log.kill    Spark's client that has ended it
    <log-dir>/code/5a3c9e01/query_0f1e....py                 the function of a task

The middle part tells the checkpoint (:func:`tag_of`), for queries may share the folder. Each start
and each prune removes what is too much: of both the newest :data:`KEPT` stay, of the logs as many
of them as take :data:`LOGS_BYTES` together. What a note in the checkpoint names stays besides,
whatever its age: the run that goes on and the standby that waits are among them. So does what is
younger than :data:`YOUNG_S`: somebody may be about to use it. With the logs goes what was sent
along, see :mod:`.sent_along`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from airflow_provider_continuous.deploy.contract import Handle, label_of
from airflow_provider_continuous.deploy.sent_along import tidy_sent
from airflow_provider_continuous.deploy.standbys import all_notes
from engine.checkpoint.storage.contract import Storage

KEPT: Final = 20
LOGS_BYTES: Final = 256 * 1024 * 1024
YOUNG_S: Final = 3600.0
_STARTED = r"\d{8}T\d{6}\.\d{6}Z\.(log|log\.kill|spec\.json|properties)"
_TAG_LENGTH = 8


def tag_of(checkpoint_url: str) -> str:
    """Return what tells a checkpoint in the names of its files."""
    return label_of(checkpoint_url)[-_TAG_LENGTH:]


def code_folder(log_dir: Path, checkpoint_url: str) -> Path:
    """Return where the modules of a query are that is a function of its task."""
    return log_dir / "code" / tag_of(checkpoint_url)


def tidy(log_dir: Path, checkpoint_url: str, storage: Storage) -> tuple[int, int]:
    """Remove what is too much; return how many files, and bytes, that was.

    :param log_dir: on this machine; it need not exist.
    :param storage: of the checkpoint, whose notes say what is in use.
    :raises CheckpointError: the checkpoint cannot be read.
    :raises OSError: a file cannot be removed.
    """
    tag, code = tag_of(checkpoint_url), code_folder(log_dir, checkpoint_url)
    name = re.compile(rf".*-{tag}-{_STARTED}")
    starts = [file for file in _files(log_dir, f"-{tag}-") if name.fullmatch(file.name)]
    modules = list(_files(code))
    removed: list[tuple[Path, int]] = []
    if _too_many(starts, LOGS_BYTES) or _too_many(modules, None):
        noted = all_notes(storage)
        in_use = tuple(Path(handle.log).stem for handle in noted if handle.log)
        starts = [file for file in starts if not file.name.startswith(in_use)]
        modules = [file for file in modules if not _is_used(file, noted)]
        removed = [*_too_many(starts, LOGS_BYTES), *_too_many(modules, None)]
    for file, _ in removed:
        file.unlink(missing_ok=True)
    if removed:
        removed += tidy_sent(log_dir, tag, YOUNG_S)
    # What Python has compiled of a module, query_0f1e....cpython-312.pyc, goes with it.
    for file in _files(code / "__pycache__"):
        if not (code / file.name.partition(".")[0]).with_suffix(".py").exists():
            file.unlink(missing_ok=True)
    return len(removed), sum(size for _, size in removed)


def _is_used(module: Path, noted: Iterable[Handle]) -> bool:
    queries = (str((handle.document or {}).get("query", "")) for handle in noted)
    return any(query.startswith(f"{module.stem}:") for query in queries)


def _too_many(files: Iterable[Path], bytes_max: int | None) -> list[tuple[Path, int]]:
    """Return those beyond the limits, with their sizes; none that is young."""
    seen = []
    for file in files:
        try:
            told = file.stat()
        except FileNotFoundError:  # another start was faster
            continue
        seen.append((told.st_mtime, file, told.st_size))
    now, total, found = time.time(), 0, []
    for number, (modified_s, file, size) in enumerate(sorted(seen, reverse=True)):
        total += size
        beyond = number >= KEPT or (bytes_max is not None and total > bytes_max)
        if beyond and now - modified_s > YOUNG_S:
            found.append((file, size))
    return found


def _files(folder: Path, part: str = "") -> Iterable[Path]:
    """Those with this in their names: a thousand queries may share the folder."""
    found = folder.iterdir() if folder.is_dir() else ()
    return (file for file in found if part in file.name and file.is_file())
