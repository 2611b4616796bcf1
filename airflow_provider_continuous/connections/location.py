"""Where a checkpoint lies, with or without an Airflow connection to reach it.

``s3://my_conn@bucket/orders``, the notation of Airflow's ``ObjectStoragePath``, names the
connection ``my_conn`` and the URL ``s3://bucket/orders``. In Azure's own notation,
``abfss://container@account.dfs.core.windows.net/orders``, a container stands there; a connection
goes before it: ``abfss://my_conn@container@account.dfs.core.windows.net/orders``.

A name stands for the folder of that name in a checkpoint root. This is the rule, for whatever takes
a location:

1. ``lake:orders`` is looked for in the root of the connection ``lake``, of type ``continuous``.
2. A name alone, ``orders``, in that of the task's ``continuous_conn_id``, where it has one, else in
   that of ``continuous_default``.
3. A connection without a root stands for ``continuous_default``.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_provider_continuous.compat import AirflowNotFoundException
from airflow_provider_continuous.connections.fields import extra_of
from engine.base.locations import split_url
from engine.errors import ConfigError

DEFAULT: Final = "continuous_default"
"""The connection whose checkpoint root names are looked for in, unless another one is named."""
CONN_TYPE: Final = "continuous"
KNOWN_FOR_S = 20.0
"""A connection is looked up so often at most, however many looks at its storage fail."""
_CONN_ID = r"[^/:*]+"
_NAME = re.compile(rf"(?:(?P<conn_id>{_CONN_ID}):)?(?P<name>[^/:]+)")
_AZURE: Final = frozenset({"abfs", "abfss", "az"})
_PROVIDERS: Final = {
    **dict.fromkeys(("s3", "s3a"), "'apache-airflow-providers-amazon[s3fs]'"),
    **dict.fromkeys(("gs", "gcs"), "apache-airflow-providers-google"),
    **dict.fromkeys(("abfs", "abfss"), "apache-airflow-providers-microsoft-azure"),
}
"""Who owns the scheme, and opens what a connection names."""
_NOTHING: Final = "None"
"""What a template makes of what is not there: no name."""
_opened: dict[tuple[str, str], tuple[float, dict[str, Any]]] = {}
"""By scheme and connection: when that was looked up, and what opens the storage."""


@dataclass(frozen=True)
class CheckpointLocation:
    """A checkpoint's URL, and the Airflow connection that opens its storage, if one does."""

    url: str
    conn_id: str | None = None

    @classmethod
    def parse(cls, text: object, conn_id: str | None = None) -> CheckpointLocation:
        """Read a location as users write it.

        :param text: a path or URL, or an ``ObjectStoragePath``.
        :param conn_id: the storage connection; one inside ``text`` must be the same.
        :raises ConfigError: nothing is given, or what is no path and no URL, or two different
            connections are.
        """
        url = str(text).strip() if text is not None else ""
        if not url or _is_nothing(url):
            raise ConfigError(
                "checkpoint_location is empty.",
                hint="Give the folder or URL of the query's checkpoint; if it is a template, "
                "see what it rendered to.",
            )
        url = _whole(url)
        parts = split_url(url, "checkpoint_location")
        named, _, host = parts.netloc.rpartition("@")
        if parts.scheme in _AZURE and "." in host:  # an account's; a container's name has no dot
            named = named.rpartition("@")[0]
        if named:
            url = url.replace(f"{named}@", "", 1)
        if not parts.scheme and not url.startswith("/"):
            raise ConfigError(
                f"checkpoint_location {url!r} is relative.",
                hint="Workers and the triggerer share no working folder: give a whole path. A name "
                "is looked for in the checkpoint root of a connection, 'my_conn:orders'; one alone "
                f"in that of {DEFAULT!r}. None was found.",
            )
        if named and conn_id and named != conn_id:
            raise ConfigError(
                f"checkpoint_location names the connection {named!r} and storage_conn_id "
                f"names {conn_id!r}.",
                hint="Keep one of them.",
            )
        return cls(url, named or conn_id)

    @property
    def text(self) -> str:
        """Both in one: what :meth:`parse` reads."""
        scheme, separator, rest = self.url.partition("://")
        if self.conn_id is None or not separator:
            return self.url
        return f"{scheme}://{self.conn_id}@{rest}"

    def storage_options(self) -> dict[str, Any]:
        """Return what fsspec needs to open the storage: of the connection, or nothing.

        Opening a connection is the business of the provider that owns the scheme, as for Airflow's
        ``ObjectStoragePath``; fsspec remembers what it has built the file system from. Each
        connection is looked up once, and again after :meth:`look_up_again`.

        :raises ConfigError: no provider that is installed owns the scheme.
        """
        if self.conn_id is None:
            return {}
        scheme = urlsplit(self.url).scheme
        known = _opened.get((scheme, self.conn_id))
        if known is None:
            from airflow.sdk.io import get_fs, has_fs  # attach would remember it for ever

            if not has_fs(scheme):
                raise ConfigError(
                    f"The connection {self.conn_id!r} cannot open {self.url}: no provider that is "
                    f"installed here knows {scheme}://.",
                    hint=f"pip install {_PROVIDERS.get(scheme, 'the one that does')}",
                )
            known = time.monotonic(), dict(get_fs(scheme, self.conn_id).storage_options)
            _opened[scheme, self.conn_id] = known
        return dict(known[1])

    def look_up_again(self) -> bool:
        """The storage has failed, and its connection may say something else by now.

        :returns: whether it is looked up again; False if it has none, or was looked up within
            :data:`KNOWN_FOR_S`.
        """
        if self.conn_id is None:
            return False
        key = urlsplit(self.url).scheme, self.conn_id
        known = _opened.get(key)
        if known is not None and time.monotonic() - known[0] < KNOWN_FOR_S:
            return False
        _opened.pop(key, None)
        return True


def of_connection(location: str, conn_id: str | None) -> str:
    """Return a location in which a name alone has got its connection.

    :param conn_id: of a connection of type ``continuous``; None and :data:`DEFAULT` change nothing.
    """
    location = location.strip()
    named = _NAME.fullmatch(location)
    if conn_id is None or conn_id == DEFAULT or named is None or named["conn_id"]:
        return location
    if _is_nothing(location):
        return location
    if re.fullmatch(_CONN_ID, conn_id):
        return f"{conn_id}:{location}"
    # An id that Airflow takes, and that would not be told from a part of a URL.
    root = _root_of(conn_id)
    return location if root is None else _below(location, root)


def query_location(location: object, name: str | None, conn_id: str) -> str | None:
    """Return where a query's checkpoint is: its location or, without one, the folder of the query's
    own name in the checkpoint root of its connection; None: there is no such root.

    :raises ConfigError: the connection that the location names does not exist, or a template has
        found no name.
    """
    if location is not None:
        location = of_connection(str(location), conn_id)
        return location if _is_nothing(location) else _whole(location)
    root = _root_of(conn_id) if name else None
    if not name or root is None:
        return None
    if name == _NOTHING:
        raise ConfigError(
            f"The name of the query is {name!r}, and no folder of the checkpoint root {root}.",
            hint="If it is a template, see what it rendered to; or give checkpoint_location.",
        )
    return _below(name, root)


def _whole(location: str) -> str:
    """Put the folder in place of a name; a name of which there is no root stays as it is."""
    named = _NAME.fullmatch(location)
    if named is None:
        return location
    root = _root_of(named["conn_id"] or DEFAULT)
    return location if root is None else _below(named["name"], root)


def _is_nothing(location: str) -> bool:
    named = _NAME.fullmatch(location)
    return named is not None and named["name"] == _NOTHING


def _below(name: str, root: str) -> str:
    return f"{root.rstrip('/')}/{name}"


def _root_of(conn_id: str) -> str | None:
    """Return the checkpoint root of a connection or, if it has none, of :data:`DEFAULT`."""
    from airflow.sdk import BaseHook

    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        if conn_id == DEFAULT:
            return None
        raise ConfigError(
            f"There is no connection {conn_id!r}, in whose checkpoint root a name is looked for.",
            hint="Create it, of type 'continuous', or give the whole location.",
        ) from None
    if connection.conn_type != CONN_TYPE:
        raise ConfigError(
            f"The connection {conn_id!r}, in whose checkpoint root a name is looked for, is of "
            f"type {connection.conn_type!r}, and not {CONN_TYPE!r}.",
            hint="Name one of that type, or give the whole location.",
        )
    root = extra_of(connection).get("checkpoint-root") or None
    return root if root or conn_id == DEFAULT else _root_of(DEFAULT)
