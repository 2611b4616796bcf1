"""Apicurio Registry, in memory: a schema registry that speaks Confluent's interface."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.jars import java, unpacked
from tests.servers.jvm import QUICK
from tests.servers.process import Process, answers, free_ports

VERSION = "2.6.13.Final"
READY_S = 90.0


class Apicurio:
    """A registry. It keeps its port over :meth:`stop` and :meth:`start`, and nothing else.

    :param folder: made by it.
    :ivar url: where it speaks Confluent's interface.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        home = unpacked(f"io.apicurio:apicurio-registry-app:{VERSION}", "all")
        self._command: list[str | Path] = [
            java(), "-Xmx384m", *QUICK,
            "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}",
            "-jar", home / f"apicurio-registry-app-{VERSION}-runner.jar",
        ]  # fmt: skip
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None, "it was not started"
        return self._process

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = Process(self._command, self.folder / "registry.log")
        self._process.await_ready(lambda: answers(f"{self.url}/subjects"), READY_S)

    def stop(self) -> None:
        """End it in order. Again is fine."""
        if self._process is not None:
            self._process.stop()


@contextmanager
def running_apicurio(folder: Path) -> Iterator[Apicurio]:
    """A registry until the end of the block; its folder goes with it."""
    registry = Apicurio(folder)
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()
        shutil.rmtree(folder)
