"""The task's end of the wire, as a process: it connects, and leaves when the driver is gone.

``python -m tests.cluster.half_open HOST PORT SECRET SILENCE_S``
"""

from __future__ import annotations

import sys
import threading

from engine.task.channel import Channel
from engine.wire.connection import Dialing, connect
from engine.wire.messages import TaskAlive, TaskStarted, Welcome


def main(host: str, port: str, secret: str, silence_s: str) -> None:
    dialing = Dialing((host, int(port)), bytes.fromhex(secret))
    connection = connect(dialing, silence_max_s=float(silence_s))
    assert isinstance(connection.receive(), Welcome)
    print(f"connected from {connection.own_host}", flush=True)
    connection.send(TaskStarted("run", 0, "host", 1))
    left = threading.Event()
    channel = Channel(connection, alive=lambda: TaskAlive("run", 0), heartbeat_s=0.5)
    channel.on_word = left.set
    while channel.dismissed is None:
        left.wait(1)
    print(channel.dismissed, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
