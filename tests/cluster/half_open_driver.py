"""The driver's end of the wire, as a process: it tells how to reach it, then each task that it has
not heard for so long.

``python -m tests.cluster.half_open_driver HOST SILENCE_S``
"""

from __future__ import annotations

import sys
import threading
from functools import partial

from engine.coordinator.endpoint import Endpoint


def main(host: str, silence_s: str) -> None:
    endpoint = Endpoint(host, partial(print, flush=True))
    address, port = endpoint.dialing.address
    print(address, port, endpoint.dialing.secret.hex(), flush=True)
    pause = threading.Event()
    while not (silent := endpoint.silent(float(silence_s))):
        pause.wait(0.1)
    print(f"silent: {silent}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
