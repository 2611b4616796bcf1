"""Where the driver listens: address family, port, and how many connections a process may hold."""

from __future__ import annotations

import errno
import resource
import socket

from engine.base.open_files import NONE_LEFT
from engine.base.options import PortRange
from engine.base.text_tables import count
from engine.errors import ConfigError

_BACKLOG = 4_096
_OTHER_FILES = 512
"""So many descriptors the rest of the process may need."""
NO_DESCRIPTORS = (*NONE_LEFT, errno.ENOBUFS, errno.ENOMEM)
"""What an ``accept()`` fails with that would fail again at once: there is no room for one more."""


def bare(host: str) -> str:
    """An address without the brackets that Spark writes around one of IPv6."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def host_and_port(host: str, port: int) -> str:
    """``host:port``, or ``[address]:port`` with IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen(host: str, ports: PortRange) -> socket.socket:
    """Listen on the first port that is free, with the address family of ``host``.

    :param host: a name or an address of this machine.
    :raises ConfigError: it is no address of this machine, or all ports are taken.
    """
    host = bare(host)
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise _cannot_listen(host, exc) from exc
    family = found[0][0]
    taken: OSError | None = None
    for port in range(ports.first, ports.last + 1):
        try:
            return socket.create_server(
                (host, port),
                family=family,
                backlog=_BACKLOG,
                dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
            )
        except OSError as exc:
            if exc.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise _cannot_listen(host, exc) from exc
            taken = exc
    raise ConfigError(
        f"The coordinator cannot listen on port {ports} of {host}: {taken}.",
        hint="Set option coordinatorPort to a free port, to a range such as 7100-7199 of which the "
        "first free one is taken, or to 0 for any.",
    )


def _cannot_listen(host: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"The coordinator cannot listen on {host}: {error}.",
        hint="Set spark.driver.bindAddress to an address of this machine, and "
        "spark.driver.host to one that the executors reach.",
    )


def make_room(tasks: int, others: int) -> None:
    """Raise this process's limit of open files, if so many connections need that.

    :param tasks: connections that there must be room for.
    :param others: connections that there should be room for.
    :raises ConfigError: the system does not allow it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = tasks + _OTHER_FILES
    wanted = needed + others
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= max(wanted, needed):
        return
    try:
        if wanted < needed:
            raise ValueError(f"the hard limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as exc:
        if soft >= needed:
            return
        raise ConfigError(
            f"For {count(tasks, 'task')} there have to be {needed} open files, and this process "
            f"may have {soft}: {exc}.",
            hint=f"Raise the limit where Spark's processes start: ulimit -n {needed}; or reduce "
            "the source's partitions, or the reducers.",
        ) from exc
