"""From ``hdfs://...`` to where its NameNodes answer over HTTP, as Hadoop's own clients find it: in
the ``*-site.xml`` files of ``HADOOP_CONF_DIR``, or of those that Spark sends to YARN's containers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from xml.etree import ElementTree

from engine.errors import ConfigError

HTTP_PORT: Final = 9870
"""Of a NameNode, unless it is set."""
_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_IN_A_CONTAINER = Path("__spark_conf__/__hadoop_conf__")
_FILES = ("core-site.xml", "hdfs-site.xml")
_ANY_HOST = "0.0.0.0"  # noqa: S104  # where a NameNode listens, not we


@dataclass(frozen=True)
class Place:
    """A folder of an HDFS.

    :param url: with the name of the file system, also where the user has left it out.
    :param path: in it.
    :param addresses: ``host:port`` of each NameNode's HTTP server; one of them is active.
    """

    url: str
    path: str
    addresses: tuple[str, ...]


def find_place(url: str, conf: Mapping[str, str]) -> Place:
    """Find the NameNodes of a URL.

    :param url: ``hdfs://host:port/path``, ``hdfs://nameservice/path``, ``hdfs:///path``, or
        ``webhdfs://host:port/path`` with the port of HTTP.
    :param conf: see :func:`hadoop_conf`.
    :raises ConfigError: it names none, or one that is not spoken to.
    """
    parts = urlsplit(url)
    name = parts.netloc
    if "@" in name:
        raise ConfigError(
            f"{parts.scheme}://... names a user.",
            hint="Give the storage option user, or set HADOOP_USER_NAME.",
        )
    if not name and parts.scheme == "hdfs":
        name = urlsplit(conf.get("fs.defaultFS", "")).netloc
    if not name:
        raise ConfigError(
            f"{url} names no NameNode.",
            hint="Write hdfs://host:port/path, or set HADOOP_CONF_DIR to a folder whose "
            "core-site.xml has fs.defaultFS.",
        )
    path = parts.path.rstrip("/") or "/"
    whole = f"{parts.scheme}://{name}{path}"
    if parts.scheme == "webhdfs":
        return Place(whole, path, (name if parts.port else f"{parts.hostname}:{HTTP_PORT}",))
    _check(whole, conf)
    return Place(whole, path, _addresses(name, conf))


def hadoop_conf() -> dict[str, str]:
    """Return Hadoop's settings of this process; empty where there are none.

    :raises ConfigError: a file cannot be read.
    """
    named = [Path(os.environ[name]) for name in _VARIABLES if os.environ.get(name)]
    for folder in (*named, _IN_A_CONTAINER):
        files = [folder / name for name in _FILES if (folder / name).is_file()]
        if files:
            return {key: value for file in files for key, value in _read(file).items()}
    return {}


def _check(url: str, conf: Mapping[str, str]) -> None:
    if conf.get("hadoop.security.authentication", "simple") != "simple":
        raise ConfigError(
            f"{url} asks for Kerberos, which checkpoints do not speak.",
            hint="Use a mount of it (its NFS gateway), or an object store.",
        )
    if conf.get("dfs.http.policy", "HTTP_ONLY") == "HTTPS_ONLY":
        raise ConfigError(
            f"{url} has dfs.http.policy HTTPS_ONLY; checkpoints speak HTTP to it.",
            hint="Use a mount of it (its NFS gateway), or an object store.",
        )


def _addresses(name: str, conf: Mapping[str, str]) -> tuple[str, ...]:
    nodes = [node.strip() for node in conf.get(f"dfs.ha.namenodes.{name}", "").split(",")]
    keys = [f"dfs.namenode.http-address.{name}.{node}" for node in nodes if node]
    found = tuple(conf[key] for key in keys if key in conf)
    if found:
        return found
    host = name.partition(":")[0]
    own = name in (urlsplit(conf.get("fs.defaultFS", "")).netloc, conf.get(_RPC))
    address = conf.get("dfs.namenode.http-address") if own else None
    if address is None:
        return (f"{host}:{HTTP_PORT}",)
    listens, _, port = address.rpartition(":")
    return (f"{host if listens == _ANY_HOST else listens}:{port}",)


_RPC = "dfs.namenode.rpc-address"


def _read(file: Path) -> dict[str, str]:
    try:
        root = ElementTree.parse(file).getroot()  # noqa: S314  # the administrator's own file
    except (OSError, ElementTree.ParseError) as error:
        raise ConfigError(f"Hadoop's settings {file} cannot be read: {error}") from error
    return {
        key.strip(): (each.findtext("value") or "").strip()
        for each in root.iter("property")
        if (key := each.findtext("name"))
    }
