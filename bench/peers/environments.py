"""Other engines, each in an environment of its own: they ask for packages that do not go together.

They are made below ``.peers``, which git ignores, when they are first wanted, and kept until
``make clean``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.servers.jars import NoJarsError, jars

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".peers"
TIMEOUT_S = 600
_ADDRESS = re.compile(r"\(?\b[a-z+]+://\S+")


class NoPeerError(Exception):
    """An engine cannot be had here; says why."""


@dataclass(frozen=True)
class Peer:
    """Another engine.

    :param packages: the first one is the engine, at the version that is measured.
    :param libraries: of Java, by their Maven coordinates.
    """

    packages: tuple[str, ...]
    libraries: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return self.packages[0].partition("==")[2]


PEERS: Mapping[str, Peer] = {
    "bytewax": Peer(("bytewax==0.21.1", "confluent-kafka==2.6.1")),
    "pathway": Peer(("pathway==0.33.0",)),
    "quix": Peer(("quixstreams==3.28.1",)),
    "flink": Peer(
        ("apache-flink==2.3.0",), ("org.apache.flink:flink-sql-connector-kafka:4.0.1-2.0",)
    ),
}


@dataclass(frozen=True)
class Environment:
    """Where a peer is.

    :param python: its interpreter.
    :param libraries: the files of Java.
    """

    python: Path
    libraries: tuple[Path, ...]


def environment(name: str) -> Environment:
    """That of a peer, made if it is not there.

    :raises NoPeerError: it cannot be installed, or what it needs of Java cannot be had.
    """
    peer = PEERS[name]
    folder = FOLDER / name
    stamp, wanted = folder / "packages", "\n".join(peer.packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        python = str(folder / "bin" / "python")
        uv = [_uv(), "--quiet", "--no-config"]
        _run(*uv, "venv", "--python", sys.executable, str(folder))
        _run(*uv, "pip", "install", "--python", python, *peer.packages)
        stamp.write_text(wanted)
    try:
        files = [file for each in peer.libraries for file in jars(each, alone=True).glob("*.jar")]
    except NoJarsError as error:
        raise NoPeerError(said(str(error))) from None
    return Environment(folder / "bin" / "python", tuple(files))


def _uv() -> str:
    found = subprocess.run(
        [ROOT / "scripts" / "find_uv.sh", sys.executable], capture_output=True, text=True
    )
    if found.returncode:
        raise NoPeerError(said(found.stderr))
    return str(ROOT / found.stdout.strip()) if "/" in found.stdout else found.stdout.strip()


def _run(*command: str) -> None:
    ours = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")
    environment = {key: value for key, value in os.environ.items() if key not in ours}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise NoPeerError(f"its installation takes more than {TIMEOUT_S} s") from None
    if done.returncode:
        raise NoPeerError(said(done.stderr))


def said(text: str, most: int = 200) -> str:
    """The beginning of what a tool has said, on one line, without addresses."""
    words = " ".join(_ADDRESS.sub("...", text).replace("`", "'").replace("×", "").split())
    return words if len(words) <= most else f"{words[:most]}..."
