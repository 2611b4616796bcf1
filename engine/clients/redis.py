"""A client of Redis by the options of a connector, and its errors as the engine's.

=========  =====================================================================================
option
=========  =====================================================================================
url        ``redis://host:6379/0``, ``rediss://`` with TLS, ``unix:///path``; what redis-py reads in
           its query, such as ``?ssl_ca_certs=/etc/ca.pem``, is handed on
username   of the access list; may stand in the URL
password   likewise
=========  =====================================================================================

No request is sent twice by the client itself: whoever sends knows what a second one would do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from engine.base.connector_options import Options
from engine.errors import ConfigError, ContinuousError

INSTALL: Final = "pip install 'airflow-provider-continuous[redis]'"
CONNECT_S: Final = 5.0
ANSWER_S: Final = 30.0
"""So long a request may take: Redis does one after the other, and another client's may be long."""
VERSION_MIN: Final = (6, 2)
LOGIN_OPTIONS: Final = ("username", "password")
_OURS: Final = frozenset(
    {"decode_responses", "encoding", "encoding_errors", "protocol", "retry", "retry_on_timeout"}
)
_PASSING: Final = re.compile(
    r"\b(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN|UNBLOCKED)\b"
)
"""What Redis says where another time the answer would be another one, also from within a script."""
_PASSING_KINDS: Final = frozenset(
    {"ClusterDownError", "MasterDownError", "OutOfMemoryError", "ReadOnlyError", "TryAgainError"}
)
"""The same, where the client has cut off what Redis has said."""


@dataclass(frozen=True)
class RedisServer:
    """Where a server is. Picklable.

    :param owner: who speaks to it, for errors.
    """

    owner: str
    url: str = field(repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, owner: str, taken: Options) -> RedisServer:
        """:raises ConfigError: the client is not installed, or the URL is none."""
        redis = _client(owner)
        url = taken.required("url", example="redis://localhost:6379/0")
        server = cls(owner, url, taken.text("username"), taken.text("password"))
        try:
            pool = redis.ConnectionPool.from_url(url)
            pool.connection_class(**pool.connection_kwargs)  # connects to nothing
        except (ValueError, TypeError) as exc:
            why = "" if "@" in url else f": {exc}"  # it may show a part of a password
            raise ConfigError(
                f"{owner}: the option url cannot be used{why}.",
                hint="It looks like redis://host:6379/0, rediss://host:6379/0 or unix:///path. A "
                "user or password with / # ? belongs into the options username and password.",
            ) from None
        for name in ("username", "password"):
            if getattr(server, name) is not None and pool.connection_kwargs.get(name):
                raise ConfigError(
                    f"{owner}: {name} is set twice, in the option url and by itself.",
                    hint="Leave out one of them.",
                )
        if ours := sorted(_OURS & set(pool.connection_kwargs)):
            raise ConfigError(
                f"{owner}: the option url has {ours[0]}, which is set here.", hint="Leave it out."
            )
        return server

    @property
    def name(self) -> str:
        """For people: without user and password."""
        parts = urlsplit(self.url)
        where = parts.netloc.rpartition("@")[2] or parts.path
        return f"Redis at {where}"

    def connect(self) -> Any:
        """A client, ``redis.Redis``; it connects with its first request. Whoever gets it closes it.

        :raises ConfigError: it is not installed.
        """
        redis = _client(self.owner)
        login = {"username": self.username, "password": self.password}
        return redis.Redis.from_url(
            self.url,
            **{key: value for key, value in login.items() if value is not None},
            protocol=2,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=CONNECT_S,
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        )

    @contextmanager
    def speaking(
        self,
        what: str,
        *,
        away: type[ContinuousError],
        refused: type[ContinuousError],
    ) -> Iterator[None]:
        """Errors of the client become the engine's.

        :param what: is not possible, for the message.
        :param away: no answer, or one that another time would not bring.
        :param refused: any other.
        """
        redis = _client(self.owner)
        try:
            yield
        except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as exc:
            raise ConfigError(
                f"{self.owner}: {self.name} does not let this user do it: {exc}",
                hint="See that username and password are right, and what the access list allows.",
            ) from exc
        except (redis.ConnectionError, redis.TimeoutError, OSError) as exc:
            raise away(
                f"{self.owner}: {self.name} {what}: {exc}",
                hint="See that the option url names it, and that it runs.",
            ) from exc
        except redis.RedisError as exc:
            passes = type(exc).__name__ in _PASSING_KINDS or _PASSING.search(str(exc))
            raise (away if passes else refused)(f"{self.owner}: {self.name} {what}: {exc}") from exc

    def check(self, client: Any) -> dict[str, Any]:
        """See that it can be used; what it says of itself (``INFO``).

        :raises ConfigError: it cannot.
        """
        with self.speaking("cannot be reached", away=ConfigError, refused=ConfigError):
            info: dict[str, Any] = client.info()
        version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
        if version < VERSION_MIN:
            raise ConfigError(
                f"{self.owner}: {self.name} is version {info['redis_version']}.",
                hint="It must be 6.2 or later.",
            )
        if info.get("cluster_enabled"):
            raise ConfigError(
                f"{self.owner}: {self.name} is part of a Redis Cluster, which is not supported.",
                hint="Use a server, or a proxy that looks like one.",
            )
        return info


def _client(owner: str) -> Any:
    try:
        import redis
        import redis.backoff
        import redis.retry
    except ImportError as exc:
        raise ConfigError(
            f"{owner} needs the client redis, which is not installed.", hint=INSTALL
        ) from exc
    return redis
