"""What a session's settings say, and whether that is their default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from engine.expressions.releases import SPARK_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_JAVA: Final = "java."
"""Keys that begin so are properties of Spark's Java, as ``java.specification.version``."""


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Let this session be the active one for a while: Spark's own code asks that one for settings,
    and the user may have others beside the session of a query."""
    sessions: Any = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


class SessionSettings:
    """Those of the active session, each read once.

    :param gateway: the py4j gateway of the session.
    """

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self._found: dict[str, tuple[str, str]] = {}

    def value(self, key: str) -> str:
        """What the setting says, by default too; empty if this Spark does not have it."""
        return self._read(key)[0]

    def other_than_default(self, key: str) -> str | None:
        """What the setting says, if that is not its default."""
        value, default = self._read(key)
        return None if value.lower() == default.lower() else value

    @cached_property
    def _confs(self) -> tuple[Any, Any]:
        """The session's, and one that nobody has set anything in."""
        kind = self._gateway.jvm.org.apache.spark.sql.internal.SQLConf
        return kind.get(), kind()

    def _read(self, key: str) -> tuple[str, str]:
        if key.startswith(_OF_JAVA) and key not in self._found:
            said = str(self._gateway.jvm.java.lang.System.getProperty(key))
            self._found[key] = (said, said)
        if key == SPARK_VERSION and key not in self._found:
            version = str(self._gateway.jvm.org.apache.spark.SparkContext.getOrCreate().version())
            self._found[key] = (version, version)
        if key not in self._found:
            session, defaults = self._confs
            try:
                default = str(defaults.getConfString(key))
            except (Py4JJavaError, PySparkException):  # it is none of this version
                self._found[key] = ("", "")
            else:
                self._found[key] = (str(session.getConfString(key)), default)
        return self._found[key]
