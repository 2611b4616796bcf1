"""A pod's one container as processes of this machine.

It has a host name, processes and mounts of its own, by namespaces of Linux; network, users and all
other files are the machine's. What is below ``/opt``, ``/var`` and ``/run`` can be changed, and
nobody else sees that.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.servers.pods import SPARK_HOME
from tests.servers.process import NoServerError

_OWN = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
_OVERLAY = "mount -t overlay overlay -o lowerdir={lower},upperdir={upper},workdir={work} {at}"


class Container:
    """Started by it.

    :param folder: made by it.
    :param name: of the host.
    :param spark: of this machine, seen at :data:`SPARK_HOME`.
    :param mounted: see :func:`tests.servers.pods.files`.
    :param hosts: seen as ``/etc/hosts``.
    :param environment: the whole one, but for what an image has.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        spark: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        mounted: Mapping[str, Mapping[str, str] | None],
        hosts: Path,
    ) -> None:
        folder.mkdir(parents=True)
        self.log = folder / "log"
        (folder / "work").mkdir()
        (folder / "scratch").mkdir()
        script = folder / "start.sh"
        script.write_text(_script(folder, name, spark, command, mounted, hosts))
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*_OWN, "sh", "-e", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder / "work",
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(folder / "work"),
                    "LANG": "C.UTF-8",
                    "SPARK_HOME": SPARK_HOME,
                    **{key: value for key, value in os.environ.items() if key == "JAVA_HOME"},
                    **environment,
                },
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """None while it runs; as a shell tells it."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: signal.Signals) -> None:
        """To its first process, as a container's runtime does."""
        with suppress(psutil.Error):
            for first in psutil.Process(self._process.pid).children():
                first.send_signal(number)

    def kill(self) -> None:
        """All of it at once."""
        self._process.kill()
        self._process.wait()

    def processes(self) -> list[psutil.Process]:
        """Those that run in it."""
        with suppress(psutil.Error):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []


def check_namespaces() -> None:
    """:raises NoServerError: this system, or this user, cannot make what a container needs."""
    if not sys.platform.startswith("linux") or shutil.which("unshare") is None:
        raise NoServerError("pods need Linux, and its program unshare")
    tried = subprocess.run(
        [*_OWN, "sh", "-ec", "mount -t tmpfs tmpfs /opt; hostname a-pod"],
        capture_output=True,
        text=True,
    )
    if tried.returncode:
        raise NoServerError(f"pods need namespaces, which root may make: {tried.stderr.strip()}")


def _script(
    folder: Path,
    name: str,
    spark: Path,
    command: Sequence[str],
    mounted: Mapping[str, Mapping[str, str] | None],
    hosts: Path,
) -> str:
    scratch = folder / "scratch"
    lines = [
        f"hostname {shlex.quote(name)}",
        f"mount -t tmpfs tmpfs {scratch}",
        "mount -t tmpfs tmpfs /run",
        f"mount --bind {hosts} /etc/hosts",
    ]
    for lower, at in (("/opt", "/opt"), ("/var", "/var"), (str(spark), SPARK_HOME)):
        upper, work = (scratch / f"{kind}{at.replace('/', '-')}" for kind in ("upper", "work"))
        mount = _OVERLAY.format(lower=lower, upper=upper, work=work, at=at)
        lines += [f"mkdir -p {upper} {work} {at}", mount]
    for number, (path, files) in enumerate(mounted.items()):
        volume = folder / "volumes" / str(number)
        volume.mkdir(parents=True)
        for key, value in (files or {}).items():
            (volume / key).write_text(value)
        lines += [f"mkdir -p {path}", f"mount --bind {volume} {path}"]
    return "\n".join([*lines, f"exec {shlex.join(command)}", ""])
