"""What becomes of rows that a service does not want."""

from __future__ import annotations

import json
import logging
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.base import durable as disk
from engine.errors import ConfigError, SinkCommitRejectedError, SinkUnavailableError
from engine.sinks.http.endpoint import OWNER, RowsRefusedError

logger: Final = logging.getLogger(__name__)
FAIL, SKIP, DEAD_LETTER = "fail", "skip", "dead-letter"
POLICIES: Final = (FAIL, SKIP, DEAD_LETTER)
_SHOWN: Final = 200


@dataclass(frozen=True)
class RefusedRows:
    """The options ``onRefused`` and ``refusedPath``.

    :param folder: each refused row becomes a file in it, which has the row's key for a name: so one
        that is refused again is the same file.
    """

    policy: str
    folder: Path | None

    def check(self) -> None:
        """:raises ConfigError: the folder cannot be written to."""
        if self.folder is None:
            return
        probe = self.folder / f".{uuid.uuid4()}.probe"
        try:
            disk.make_folder(self.folder)
            probe.touch(exist_ok=False)
            probe.unlink()
        except OSError as exc:
            raise ConfigError(
                f"{OWNER}: refused rows cannot be kept in {self.folder}: {exc.strerror or exc}.",
                hint="Set the option refusedPath to a folder that this user may write to.",
            ) from exc

    def take(self, origin: str, key: str, row: str, why: RowsRefusedError, epoch: int) -> None:
        """:param row: JSON.
        :raises SinkCommitRejectedError: a row that is not wanted ends the query.
        :raises SinkUnavailableError: it cannot be kept.
        """
        if self.policy == FAIL:
            raise SinkCommitRejectedError(
                f"{OWNER}: {origin} answers {why.status} {why.answer} to the row {row[:_SHOWN]}.",
                hint="Write what the service takes. To go on without such rows, set the option "
                "onRefused to skip or dead-letter.",
                epoch=epoch,
            )
        if self.folder is None:
            logger.warning(
                "%s: %s answers %d to a row, which is skipped", OWNER, origin, why.status
            )
            return
        letter = {
            "epoch": epoch, "key": key, "service": origin,
            "status": why.status, "answer": why.answer,
        }  # fmt: skip
        try:
            _write(self.folder / f"{key}.json", letter, row)
        except OSError as exc:
            raise SinkUnavailableError(
                f"{OWNER}: a refused row cannot be kept in {self.folder}: {exc.strerror or exc}.",
                epoch=epoch,
            ) from exc


def refused_rows(policy: str, folder: Path | None) -> RefusedRows:
    """:raises ConfigError: the two do not go together."""
    if (policy == DEAD_LETTER) != (folder is not None):
        raise ConfigError(
            f"{OWNER}: onRefused is {policy}, and refusedPath is "
            f"{'not set' if folder is None else folder}.",
            hint=f"onRefused {DEAD_LETTER} wants a refusedPath, and nothing else does.",
        )
    return RefusedRows(policy, folder)


def _write(path: Path, letter: dict[str, Any], row: str) -> None:
    # The row as it is: a parser would round its decimals.
    text = f'{json.dumps(letter, ensure_ascii=False)[:-1]}, "row": {row}}}'
    beside = path.with_name(f".{uuid.uuid4()}.tmp")
    try:
        with disk.create(beside) as file:
            file.write(text.encode())
            disk.sync(file)
        disk.system.replace(beside, path)
        disk.sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)  # noqa: PTH108  as the disk is asked elsewhere
        raise
