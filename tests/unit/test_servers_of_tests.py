"""What tests rely on that start servers: ports that stay theirs, and a server that may be slow."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from scripts.local_airflow import ports
from tests.servers.process import answers, free_ports

OTHER = "from tests.servers.process import free_ports; print(*free_ports(300)); input()"


def test_a_port_is_of_one_process_until_it_ends_and_of_no_connection() -> None:
    root = Path(__file__).parents[2]
    others = [
        subprocess.Popen(
            [sys.executable, "-c", OTHER],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        ours = free_ports(300)
        theirs = [
            int(port) for each in others for port in (each.stdout or sys.stdin).readline().split()
        ]
        assert len({*ours, *theirs}) == len(ours) + len(theirs) == 900
        low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
        assert not [port for port in (*ours, *theirs) if low <= port <= high]
    finally:
        for each in others:
            each.communicate("\n")


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not ports._take(server.getsockname()[1])


def test_a_server_that_takes_its_time_does_not_answer_yet() -> None:
    """It listens, and has much to load for its first answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = "http://{}:{}".format(*server.getsockname())
        assert not answers(url, 0.1)

        def answer() -> None:
            for _ in range(2):  # nobody reads the first one any more
                connection, _ = server.accept()
                with connection, suppress(OSError):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                    connection.recv(1_000)

        thread = threading.Thread(target=answer)
        thread.start()
        assert answers(url, 30)
        thread.join()
    assert not answers(url)
