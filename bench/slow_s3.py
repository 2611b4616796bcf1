"""S3 as it is somewhere else: a real server on this machine that counts requests, and answers each
of them late."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class SlowS3:
    """A server with one bucket. A context manager.

    :param delay_ms: added to each answer.
    :ivar calls: the requests so far, ``PUT offsets/3``: their method, and the object's name in the
        checkpoint, or the prefix of a listing.
    """

    def __init__(self, delay_ms: float = 0) -> None:
        self.delay_ms = delay_ms
        self.calls: list[str] = []
        self._app: Any = DomainDispatcherApplication(create_backend_app)
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._bucket = f"bucket-{uuid.uuid4()}"

    @property
    def url(self) -> str:
        """Of the checkpoint."""
        return f"s3://{self._bucket}/checkpoint"

    @property
    def options(self) -> dict[str, Any]:
        """How fsspec reaches it."""
        return {
            "key": "test",
            "secret": "test",
            "endpoint_url": "http://{}:{}".format(*self._server.server_address[:2]),
            "client_kwargs": {"region_name": "eu-west-1"},
            "skip_instance_cache": True,
        }

    def take(self) -> list[str]:
        """The requests since the last time."""
        taken, self.calls = self.calls, []
        return taken

    def __enter__(self) -> SlowS3:
        import s3fs

        self._thread.start()
        s3fs.S3FileSystem(**self.options).mkdir(self._bucket)
        self.take()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"].partition("/checkpoint/")[2]
        listing = environ["QUERY_STRING"].partition("prefix=checkpoint%2F")[2].partition("&")[0]
        method = environ["REQUEST_METHOD"]
        self.calls.append(f"{method} {path}" if path else f"LIST {listing.replace('%2F', '/')}")
        threading.Event().wait(self.delay_ms / 1000)
        answer: Iterable[bytes] = self._app(environ, start)
        return answer


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, type: str, message: str, *args: Any) -> None:
        return None
