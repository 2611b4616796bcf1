"""Several hosts on one machine: network namespaces, each with an address, a name and a cable of its
own, on a bridge in one more. What runs in one reaches the others over that cable alone, and every
one sees the same disk.

A cable that is pulled out of the bridge drops what is sent into it, silently: the interface stays
up, and nobody gets an RST. Needs Linux, root, and ``ip``, ``tc`` and ``bridge`` of iproute2.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any

import psutil

_TOOLS = ("ip", "tc", "bridge", "ss", "nsenter", "unshare")
_ASK = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=20).read().decode())"
_NAMED = 'hostname "$0" && exec "$@"'


class NoHostsError(Exception):
    """Namespaces cannot be made here; says why."""


class Host:
    """One of them; made by :class:`Hosts`.

    :ivar name: its host name.
    :ivar address: by which the others reach it, without brackets.
    """

    def __init__(self, name: str, address: str, own: str, switch: str) -> None:
        self.name, self.address = name, address
        self._own, self._switch, self._port = own, switch, f"to-{name}"

    def command(self, words: list[str]) -> list[str]:
        """The command line that runs there what these words run here."""
        inside = ["nsenter", f"--net=/run/netns/{self._own}", "unshare", "--uts"]
        return [*inside, "sh", "-c", _NAMED, self.name, *words]

    def cut(self) -> None:
        """Pull the cable: whatever is sent, from here or to here, is dropped without a word."""
        _run("ip", "-n", self._switch, "link", "set", self._port, "nomaster")

    def heal(self) -> None:
        """Plug it in again, at its full rate."""
        _run("ip", "-n", self._switch, "link", "set", self._port, "master", "bridge")
        for inside, device in self._ends:
            with suppress(subprocess.CalledProcessError):  # it was not slow
                _run("tc", "-n", inside, "qdisc", "del", "dev", device, "root")

    def slow(self, rate: str, burst: str = "2kb") -> None:
        """Let it carry so much, each way; what is more waits in a queue of two seconds."""
        shape = ["tbf", "rate", rate, "burst", burst, "latency", "2s"]
        for inside, device in self._ends:
            _run("tc", "-n", inside, "qdisc", "replace", "dev", device, "root", *shape)

    def shun(self, others: bool = True) -> None:
        """Whether this host reaches none of the others that shun, nor they it; everybody else it
        does."""
        state = "on" if others else "off"
        _run("bridge", "-n", self._switch, "link", "set", "dev", self._port, "isolated", state)

    def processes(self) -> list[psutil.Process]:
        """All that runs there."""
        found = []
        for pid in _run("ip", "netns", "pids", self._own).split():
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(int(pid)))
        return found

    def die(self) -> None:
        """As if it lost its power: nothing it has not said before is heard. Its processes end now,
        and are listed for a moment more."""
        self.cut()
        for each in self.processes():
            with suppress(psutil.NoSuchProcess):
                each.kill()

    def python_connections(self) -> set[tuple[str, str]]:
        """The addresses, own and other, of the established connections of Python processes."""
        lines = _run("ip", "netns", "exec", self._own, "ss", "-tnpH", "state", "established")
        found = set()
        for line in lines.splitlines():
            if '(("python' in line:
                own, other = line.split()[2:4]
                found.add((_host_of(own), _host_of(other)))
        return found

    def ask(self, url: str) -> Any:
        """What a web page there, asked there, answers in JSON."""
        words = [sys.executable, "-c", _ASK, url]
        return json.loads(_run("ip", "netns", "exec", self._own, *words))

    @property
    def _ends(self) -> tuple[tuple[str, str], ...]:
        return (self._own, "cable"), (self._switch, self._port)


class Hosts:
    """A context manager; the namespaces, and what still runs in them, are gone at its end.

    :param names: of the hosts; at most 7 characters each.
    :param ipv6: they have IPv6 only.
    :raises NoHostsError: when entered: they cannot be made here.
    """

    def __init__(self, *names: str, ipv6: bool = False) -> None:
        prefix = f"hosts-{os.getpid()}-{id(self) % 9_973}"
        self._switch = f"{prefix}-switch"
        net = "fd77::" if ipv6 else "10.77.0."
        self._bits = 64 if ipv6 else 24
        self._all = {
            name: Host(name, f"{net}{number}", f"{prefix}-{name}", self._switch)
            for number, name in enumerate(names, start=1)
        }
        self._made: list[str] = []

    def __getitem__(self, name: str) -> Host:
        return self._all[name]

    def __enter__(self) -> Hosts:
        missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if sys.platform != "linux" or missing:
            raise NoHostsError(f"no network namespaces on {sys.platform} without {missing}")
        try:
            self._make(self._switch)
            _run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
            _run("ip", "-n", self._switch, "link", "set", "bridge", "up")
            for host in self._all.values():
                self._make(host._own)
                self._plug(host)
        except subprocess.CalledProcessError as error:
            self._remove()
            raise NoHostsError(f"no network namespaces here: {error.stderr.strip()}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for host in self._all.values():
                for left in host.processes():
                    with suppress(psutil.NoSuchProcess):
                        left.kill()
        finally:
            self._remove()

    def _make(self, name: str) -> None:
        _run("ip", "netns", "add", name)
        self._made.append(name)
        _run("ip", "-n", name, "link", "set", "lo", "up")

    def _plug(self, host: Host) -> None:
        own, switch, port = host._own, self._switch, host._port
        ends = ["peer", "name", "cable", "netns", own]
        _run("ip", "link", "add", port, "netns", switch, "type", "veth", *ends)
        _run("ip", "-n", switch, "link", "set", port, "master", "bridge", "up")
        _run("ip", "-n", own, "link", "set", "cable", "up")
        nodad = ["nodad"] if self._bits == 64 else []
        address = f"{host.address}/{self._bits}"
        _run("ip", "-n", own, "address", "add", address, "dev", "cable", *nodad)

    def _remove(self) -> None:
        for name in reversed(self._made):
            _run("ip", "netns", "delete", name)
        self._made.clear()


def _host_of(endpoint: str) -> str:
    host, _, _ = endpoint.rpartition(":")
    return re.sub(r"^\[(?:::ffff:)?|\]$", "", host)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout
