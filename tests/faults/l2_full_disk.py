"""A disk that is really full: a small file system in memory, then a larger one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.faults import l2_server
from tests.faults.l2_oracle import SinkReader, SourceFiles, compare_all
from tests.faults.l2_query import Outcome, Plan, drive
from tests.faults.result import LevelResult

SIZES_KB = (64, 96, 128, 256)
RECORDS = 4_000
KIND = "full file system"


def run(server: str, folder: Path, result: LevelResult) -> None:
    """Fill file systems of several sizes; skipped in sight where none may be mounted."""
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        result.outcomes[f"{KIND}: not run here, only root may mount one"] += 1
        return
    source = SourceFiles(folder / "much", 2)
    source.append(RECORDS)
    for size in SIZES_KB:
        disk = folder / f"disk-{size}"
        disk.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(disk)]
        if subprocess.run([mount, *options], check=False).returncode != 0:
            result.outcomes[f"{KIND}: not run here, mount refuses"] += 1
            return
        try:
            _fill(server, disk, source, result, mount)
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill(server: str, disk: Path, source: SourceFiles, result: LevelResult, mount: str) -> None:
    plan = Plan(
        server=server,
        source=source.folder,
        out=disk / "out",
        checkpoint=disk / "checkpoint",
        ends=source.ends,
        rows_per_second=20_000,
    )
    reader = SinkReader(plan.out, plan.checkpoint, source)
    log = str(disk.with_suffix(".stderr"))
    full: Outcome | None = l2_server.start(server, drive, plan, log=log).result()
    where = f"{KIND}, {disk.name}"
    if full is None or not full.ours or "No space left" not in str(full.error):
        result.broken.append(f"{where}: ended with {full}")
    else:
        result.faults[KIND] += 1
    looks = [reader.look()]
    subprocess.run([mount, "-o", "remount,size=64m", str(disk)], check=True)
    again: Outcome | None = l2_server.start(server, drive, plan, log=log).result()
    if again is None or again.error is not None:
        result.broken.append(f"{where}: with space again: {again}")
    looks.append(reader.look())
    torn = [look for look in looks if look]
    result.torn += len(torn)
    result.broken += [f"{where}: torn: {look}" for look in torn]
    compare_all(result, plan.out, source.ends, where)
