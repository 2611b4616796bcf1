"""An archive of Spark's classes for its JVM, which then starts with half the work.

A JVM spends most of a start on loading and verifying thousands of classes. It can map them from a
file that an earlier one has written at its end (class data sharing). ``continuous doctor`` makes
that file, about 150 MB: in the virtual environment if there is one, else in the user's cache folder
(``XDG_CACHE_HOME``). One that does not fit, after an update of Java for example, is not used: the
JVM looks at that itself, and starts as it would without.

The process that has its JVM write one is :mod:`engine.commands.write_class_archive`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

logger = logging.getLogger(__name__)
OPTIONS = "SPARK_SUBMIT_OPTS"
MAKING = "CONTINUOUS_CLASS_ARCHIVE"
"""Set for the process that makes one: where it is to go."""
_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"
_LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the small JVM that only puts together the command line of the other."""
_TIMEOUT_S = 300


def use_archive(java: Path) -> None:
    """Have the JVM that this process is going to start use the archive, if there is one."""
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _LAUNCHER)
    given = os.environ.get(OPTIONS, "")
    if "-XX:SharedArchiveFile" in given or "-XX:ArchiveClassesAtExit" in given:
        return
    making = os.environ.get(MAKING)
    path = archive_path(java)
    if making:
        option = f"-XX:ArchiveClassesAtExit={making} {_QUIET}"
    elif path.exists() and " " not in str(path):
        option = f"-XX:SharedArchiveFile={path} {_QUIET}"
    else:
        logger.info("no archive of Spark's classes in %s: continuous doctor makes one", path.parent)
        return
    os.environ[OPTIONS] = f"{given} {option}".strip()


def archive_path(java: Path) -> Path:
    """Where the archive for this Java and this PySpark is, or would be."""
    spark = find_spec("pyspark")
    # An environment may be reached by a link: PySpark tells its JVM the folder that is behind it.
    home = os.environ.get("SPARK_HOME") or str(Path(str(spark and spark.origin)).resolve().parent)
    key = [str(java.resolve()), home]
    with suppress(OSError):
        key += [str(java.stat().st_mtime_ns), str((Path(home) / "jars").stat().st_mtime_ns)]
    return _folder() / f"spark-{hashlib.sha256(' '.join(key).encode()).hexdigest()[:16]}.jsa"


def make_archive(java: Path) -> Path | None:
    """Make the archive unless it is there, by a small query in a process of its own: some seconds.

    :return: its path; None if this Java makes none, and why is in the log.
    """
    path = archive_path(java)
    if path.exists():
        return path
    made = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        said = _write(made)
        if not made.exists():
            logger.warning("no archive of Spark's classes was made: %s", said[-2000:])
            return None
        for other in path.parent.glob("spark-*.jsa"):  # of an earlier Java or Spark
            other.unlink(missing_ok=True)
        made.replace(path)
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("no archive of Spark's classes was made: %s", error)
        return None
    finally:
        with suppress(OSError):
            made.unlink()
    return path


def _write(made: Path) -> str:
    """Have the process write it; what that said. It is given up together with its JVM, which would
    go on, and leave the file behind.

    :raises subprocess.TimeoutExpired: it takes too long.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "engine.commands.write_class_archive"],
        env={**os.environ, MAKING: str(made)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=_TIMEOUT_S)[1]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _folder() -> Path:
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "share" / "continuous"
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "continuous"
