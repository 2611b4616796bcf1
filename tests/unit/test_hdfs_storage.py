"""Checkpoints on HDFS: where its NameNodes are, and what is said when they refuse."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.storage.contract import Storage
from engine.checkpoint.storage.hadoop_conf import find_place, hadoop_conf
from engine.checkpoint.storage.hdfs_storage import HdfsStorage
from engine.checkpoint.storage.opening import open_storage, prove_create_if_absent
from engine.checkpoint.storage.webhdfs import CONNECT_S
from engine.errors import CheckpointError, ConfigError
from tests.servers.process import free_ports
from tests.unit.web_hdfs import WebHdfsServer, web_hdfs

CONF = {
    "fs.defaultFS": "hdfs://namenode:8020",
    "dfs.namenode.http-address": "0.0.0.0:50070",
    "dfs.ha.namenodes.lake": "nn1, nn2",
    "dfs.namenode.http-address.lake.nn1": "first:9870",
    "dfs.namenode.http-address.lake.nn2": "second:9870",
}


def connecting(monkeypatch: pytest.MonkeyPatch, gone: Mapping[str, OSError]) -> list[str]:
    """Nothing connects to these hosts; the hosts that are asked for."""
    asked: list[str] = []
    connect = HTTPConnection.connect

    def watched(self: HTTPConnection) -> None:
        asked.append(self.host)
        if self.host in gone:
            raise gone[self.host]
        connect(self)

    monkeypatch.setattr(HTTPConnection, "connect", watched)
    return asked


@contextmanager
def ending_server() -> Iterator[str]:
    """The address of a server that ends each connection when it has been asked."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):  # it is closed
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(1 << 16)

        thread = threading.Thread(target=serve, name="ending")
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture
def server() -> Iterator[WebHdfsServer]:
    with web_hdfs() as server:
        yield server


@pytest.fixture
def storage(server: WebHdfsServer) -> Storage:
    return open_storage(f"webhdfs://{server.address}/checkpoints/one")


@pytest.mark.parametrize(
    ("url", "conf", "whole", "addresses"),
    [
        ("hdfs://nn:8020/a/b/", {}, "hdfs://nn:8020/a/b", ["nn:9870"]),
        ("hdfs://nn/a", {}, "hdfs://nn/a", ["nn:9870"]),
        ("hdfs:///a", CONF, "hdfs://namenode:8020/a", ["namenode:50070"]),
        ("hdfs://namenode:8020/a", CONF, "hdfs://namenode:8020/a", ["namenode:50070"]),
        ("hdfs://other:8020/a", CONF, "hdfs://other:8020/a", ["other:9870"]),
        ("hdfs://lake/a", CONF, "hdfs://lake/a", ["first:9870", "second:9870"]),
        ("webhdfs://nn:50070/a", CONF, "webhdfs://nn:50070/a", ["nn:50070"]),
        ("webhdfs://nn/a", {}, "webhdfs://nn/a", ["nn:9870"]),
    ],
)
def test_the_name_nodes_of_a_url(
    url: str, conf: Mapping[str, str], whole: str, addresses: list[str]
) -> None:
    place = find_place(url, conf)
    assert (place.url, list(place.addresses)) == (whole, addresses)


@pytest.mark.parametrize(
    ("url", "conf", "reason"),
    [
        ("hdfs:///a", {}, "names no NameNode"),
        ("webhdfs:///a", CONF, "names no NameNode"),
        ("hdfs://me@nn/a", {}, "names a user"),
        ("hdfs://nn/a", {"hadoop.security.authentication": "kerberos"}, "Kerberos"),
        ("hdfs://nn/a", {"dfs.http.policy": "HTTPS_ONLY"}, "HTTPS_ONLY"),
    ],
)
def test_what_is_not_spoken_to(url: str, conf: Mapping[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        find_place(url, conf)


@pytest.mark.parametrize("where", ["variable", "container"])
def test_settings_are_those_of_hadoops_clients(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    assert hadoop_conf() == {}
    folder = tmp_path / ("conf" if where == "variable" else "__spark_conf__/__hadoop_conf__")
    folder.mkdir(parents=True)
    setting = "<property><name>{}</name><value> {} </value></property>"
    core, hdfs = setting.format("fs.defaultFS", "hdfs://nn"), setting.format("x", "1")
    (folder / "core-site.xml").write_text(f"<configuration>{core}</configuration>")
    (folder / "hdfs-site.xml").write_text(f"<configuration>{hdfs}</configuration>")
    if where == "variable":
        monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
    assert hadoop_conf() == {"fs.defaultFS": "hdfs://nn", "x": "1"}
    (folder / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigError, match="cannot be read"):
        hadoop_conf()


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"usr": "me"}, "no storage option 'usr'"), ({"timeout": "soon"}, "is 'soon'"),
     ({"timeout": 0}, "is 0")],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(options: Mapping[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        open_storage("hdfs://nn/a", options)


def test_the_user_is_an_option_or_hadoops_variable(
    server: WebHdfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")
    url = f"webhdfs://{server.address}/one"
    open_storage(url).create("a", b"")
    open_storage(url, {"user": "me"}).create("b", b"")
    assert server.users == {"etl", "me"}


def test_create_if_absent_holds_and_nothing_is_left(
    storage: Storage, server: WebHdfsServer
) -> None:
    prove_create_if_absent(storage)
    assert server.files == {}


def test_the_active_name_node_is_asked(server: WebHdfsServer, storage: Storage) -> None:
    with web_hdfs() as standby:
        standby.refuses = "StandbyException"
        (gone,) = free_ports(1)
        assert isinstance(storage, HdfsStorage)
        storage._client._addresses = [f"127.0.0.1:{gone}", standby.address, server.address]
        assert storage.create("offsets/0", b"x")
        standby.users.clear()
        assert storage.read("offsets/0") == b"x"
        assert standby.users == set()  # it is known by now who is active
    server.refuses = "StandbyException"
    with pytest.raises(CheckpointError, match="StandbyException"):
        storage.read("offsets/0")


@pytest.mark.parametrize(
    "trouble",
    [
        TimeoutError("timed out"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    ],
    ids=["timeout", "no-route", "no-name"],
)
def test_a_name_node_whose_machine_is_gone_is_passed_over_and_asked_last(
    server: WebHdfsServer, storage: Storage, trouble: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(storage, HdfsStorage)
    storage._client._addresses = ["gone:9870", server.address]
    asked = connecting(monkeypatch, {"gone": trouble})
    assert storage.create("offsets/0", b"x")
    assert storage.read("offsets/0") == b"x"
    assert asked.count("gone") == 1
    assert storage._client.addresses == [server.address, "gone:9870"]
    storage._client._addresses = ["gone:9870"]
    with pytest.raises(CheckpointError, match=f"gone:9870: .*{trouble.args[-1]}"):
        storage.read("offsets/0")


def test_a_connection_is_waited_for_less_than_an_answer(
    server: WebHdfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease of ten seconds must not be lost to a machine that is gone."""
    waits: list[tuple[float | None, float | None]] = []
    connect = HTTPConnection.connect

    def measured(self: HTTPConnection) -> None:
        connect(self)
        limit = self.timeout
        real = self.request

        def request(*args: Any, **kwargs: Any) -> None:
            waits.append((limit, self.sock.gettimeout()))
            real(*args, **kwargs)

        monkeypatch.setattr(self, "request", request)

    monkeypatch.setattr(HTTPConnection, "connect", measured)
    for timeout in (40, 1):
        url = f"webhdfs://{server.address}/checkpoints/one"
        open_storage(url, {"timeout": timeout}).list("offsets")
    assert waits == [(CONNECT_S, 40), (1, 1)]


def test_what_a_silent_name_node_was_asked_is_asked_again_only_if_it_changes_nothing(
    server: WebHdfsServer, storage: Storage
) -> None:
    """One that hangs, or ends, may have done what it was asked."""
    assert isinstance(storage, HdfsStorage)
    with ending_server() as silent:
        storage._client._addresses = [silent, server.address]
        assert storage.list("offsets") == []
        assert storage._client.addresses == [server.address, silent]
        storage._client._addresses = [silent, server.address]
        with pytest.raises(ConnectionError):
            storage._client.delete("/checkpoints/one/a")
        assert storage._client.addresses == [server.address, silent]


@pytest.mark.parametrize("trouble", [ConnectionRefusedError("refused"), TimeoutError("timed out")])
def test_a_data_node_that_is_gone_is_no_name_node_that_is(
    server: WebHdfsServer, storage: Storage, trouble: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(storage, HdfsStorage)
    server.data_node = "data:9864"
    with web_hdfs() as other:
        storage._client._addresses = [server.address, other.address]
        connecting(monkeypatch, {"data": trouble})
        with pytest.raises(CheckpointError, match=f"the DataNode data:9864: {trouble}"):
            storage.read("offsets/0")
        assert other.users == set()
        assert storage._client.addresses == [server.address, other.address]


@pytest.mark.parametrize(
    ("kind", "hint"), [("AccessControlException", "write access"), ("SafeModeException", "safe")]
)
def test_a_refusal_says_what_to_do(
    storage: Storage, server: WebHdfsServer, kind: str, hint: str
) -> None:
    server.refuses = kind
    with pytest.raises(CheckpointError, match=kind) as refused:
        storage.create("offsets/0", b"x")
    assert hint in str(refused.value)


def test_a_server_that_does_not_replace_is_named(storage: Storage, server: WebHdfsServer) -> None:
    server.replaces = False
    assert storage.create("metadata", b"1")
    assert not storage.create("metadata", b"2")
    with pytest.raises(CheckpointError, match="HttpFS"):
        storage.replace("metadata", b"2")
    assert storage.read("metadata") == b"1"
    assert [file.name for file in storage.list("")] == ["metadata"]


@pytest.mark.parametrize(
    "says",
    [
        (b"<html>Please log in</html>", "text/html; charset=utf-8"),
        (b"<html>Please log in</html>", "application/json"),
        (b'{"error": "who are you?"}', "application/json"),
        (b'{"FileStatus": {}, "FileStatuses": {"FileStatus": [3]}}', "application/json"),
        (b"[]", "application/json"),
    ],
)
def test_another_server_in_its_place_is_trouble_of_the_storage(
    storage: Storage, server: WebHdfsServer, says: tuple[bytes, str]
) -> None:
    storage.create("offsets/0", b"x")
    server.says = says
    looks: list[Callable[[], object]] = [
        lambda: storage.list("offsets"),
        lambda: storage.files_below(""),
        lambda: storage.info("offsets/0"),
        lambda: storage.replace("offsets/0", b"y"),
    ]
    if says[1] != "application/json":
        looks += [lambda: storage.read("offsets/0"), lambda: storage.delete("offsets/0")]
    for look in looks:
        with pytest.raises(CheckpointError, match=r"no WebHDFS|no redirect"):
            look()
    server.says = None
    assert storage.read("offsets/0") == b"x"


def test_nobody_there(storage: Storage, server: WebHdfsServer) -> None:
    server.server_close()
    (gone,) = free_ports(1)
    with pytest.raises(CheckpointError, match=r"refused.*\n?.*WebHDFS"):
        open_storage(f"webhdfs://127.0.0.1:{gone}/a").read("x")
