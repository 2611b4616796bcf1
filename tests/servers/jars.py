"""Java libraries by their Maven coordinates, by the Ivy that PySpark ships: Maven is not needed.

They are kept in the user's cache, for all clones of the project.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

import pyspark

from engine.spark.java import find_java
from tests.servers.process import NoServerError

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
DOWNLOADS = _CACHE / "ivy-of-tests"
KEPT = _CACHE / "jars-of-tests"
RESOLVE_S = 600
TRIES = 3
"""Of dozens of downloads one may break off; the others are kept."""


class NoJarsError(NoServerError):
    """They cannot be had here; says why."""


def jars(*coordinates: str, alone: bool = False) -> Path:
    """A folder with these libraries, and with those that they need.

    :param coordinates: ``group:artifact:version``, or ``group:artifact:version:classifier``.
    :param alone: without those that they need.
    :raises NoJarsError: there is no Java, or no repository can be reached.
    """
    name = hashlib.sha256(" ".join((*coordinates, str(alone))).encode()).hexdigest()[:16]
    folder = KEPT / name
    if folder.is_dir():
        return folder
    with one_at_a_time():
        if not folder.is_dir():
            made = folder.with_name(f"{name}.{os.getpid()}")
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            _resolve(coordinates, alone, made)
            made.rename(folder)
    return folder


def unpacked(coordinate: str, classifier: str) -> Path:
    """A folder with what a distribution, a ``.tar.gz``, has in it.

    :raises NoJarsError: as of :func:`jars`.
    """
    name = hashlib.sha256(f"{coordinate} {classifier}".encode()).hexdigest()[:16]
    folder = KEPT / name
    if folder.is_dir():
        return folder
    with one_at_a_time():
        if not folder.is_dir():
            made = folder.with_name(f"{name}.{os.getpid()}")
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            _resolve((coordinate,), True, made, classifier)
            (archive,) = made.glob("*.tar.gz")
            with tarfile.open(archive) as content:
                content.extractall(made, filter="data")
            archive.unlink()
            made.rename(folder)
    return folder


def java() -> Path:
    """:raises NoJarsError: there is none."""
    found = find_java()
    if found is None:
        raise NoJarsError("no Java 17 is here: `make install` brings one")
    return found


def _resolve(
    coordinates: tuple[str, ...], alone: bool, folder: Path, classifier: str | None = None
) -> None:
    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    wanted = folder / "ivy.xml"
    wanted.write_text(_module(coordinates, alone, classifier))
    for _ in range(TRIES):
        resolved = subprocess.run(
            [
                java(), "-jar", ivy, "-cache", DOWNLOADS, "-ivy", wanted,
                "-retrieve", folder / "[artifact]-[revision](-[classifier]).[ext]",
            ],
            capture_output=True,
            text=True,
            timeout=RESOLVE_S,
        )  # fmt: skip
        if not resolved.returncode:
            wanted.unlink()
            return
    shutil.rmtree(folder)
    said = (resolved.stdout + resolved.stderr).strip().splitlines()
    told = [line.strip() for line in said if "FAILED" in line or "Exception" in line] or said
    raise NoJarsError(f"{', '.join(coordinates)} cannot be downloaded: {' '.join(told[-3:])}")


_ARTIFACT: Final = '<artifact name={0} type="{1}" ext="{1}" m:classifier={2}/>'


def _module(coordinates: tuple[str, ...], alone: bool, classifier: str | None) -> str:
    transitive = "false" if alone else "true"
    dependencies = []
    for coordinate in coordinates:
        group, artifact, version, *own = map(quoteattr, coordinate.split(":"))
        file = ""
        if classifier is not None:
            file = _ARTIFACT.format(artifact, "tar.gz", quoteattr(classifier))
        elif own:
            file = _ARTIFACT.format(artifact, "jar", *own)
        dependencies.append(
            f"<dependency org={group} name={artifact} rev={version} "
            f'conf="*->default" transitive="{transitive}">{file}</dependency>'
        )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tests" module="servers"/>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two processes that run tests may both be first."""
    for folder in (KEPT, DOWNLOADS):
        folder.mkdir(parents=True, exist_ok=True)
    with (DOWNLOADS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
