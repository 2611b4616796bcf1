"""A disk of the worker that is full: a start fails, and leaves no half of a file, each time
another one."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_continuous.deploy.private_files import write_keytab
from airflow_provider_continuous.deploy.shipping import zip_modules
from airflow_provider_continuous.deploy.submission import Submission
from tests.disks import disk_of_64k

__all__ = ["disk_of_64k"]
TOO_MUCH = os.urandom(1 << 17).hex()


def ship(folder: Path, elsewhere: Path) -> None:
    (elsewhere / "module.py").write_text(f"TEXT = '{TOO_MUCH}'\n")
    zip_modules(elsewhere, folder)


def keep_a_key_table(folder: Path, elsewhere: Path) -> None:
    write_keytab(base64.b64encode(TOO_MUCH.encode()).decode(), folder)


def write_a_specification(folder: Path, elsewhere: Path) -> None:
    Submission({"name": "orders", "sql": TOO_MUCH}, folder).write_specification()


@pytest.mark.parametrize("write", [ship, keep_a_key_table, write_a_specification])
def test_nothing_is_left(
    disk_of_64k: Path, tmp_path_factory: pytest.TempPathFactory, write: Callable[[Path, Path], None]
) -> None:
    with pytest.raises(OSError, match="No space left on device"):
        write(disk_of_64k, tmp_path_factory.mktemp("elsewhere"))
    assert list(disk_of_64k.iterdir()) == []
