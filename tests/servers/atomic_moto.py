"""moto's server, with one request at a time that changes something: S3 checks the condition of a
put and puts in one step, moto does one after the other, and two threads of it both won.

Run as ``python atomic_moto.py PORT``, on loopback.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import run_simple
from werkzeug.wsgi import get_input_stream


class AtomicMoto:
    """The application."""

    def __init__(self) -> None:
        self._app: Any = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
            answer: Iterable[bytes] = self._app(environ, start)
            return answer
        # All of it is here before the lock is taken: a client may be suspended in the middle.
        body = get_input_stream(environ).read()
        whole = {
            **environ,
            "wsgi.input": io.BytesIO(body),
            "wsgi.input_terminated": True,
            "CONTENT_LENGTH": str(len(body)),
        }
        whole.pop("HTTP_TRANSFER_ENCODING", None)
        with self._lock:
            return list(self._app(whole, start))


if __name__ == "__main__":
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        AtomicMoto(),
        threaded=True,
        request_handler=MotoRequestHandler,
    )
