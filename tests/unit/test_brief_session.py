"""Ctrl-C while a command looks at a query; the session is a stand-in."""

from __future__ import annotations

import logging
import signal
from typing import Any
from unittest.mock import Mock

import pytest

from engine.commands import brief_session as module
from engine.commands.brief_session import brief_session


def interrupted() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        logging.getLogger("py4j").error("something was under way")


def test_ctrl_c_ends_the_block_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spark, before = Mock(), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(module, "build_session", lambda *_: spark)
    with pytest.raises(KeyboardInterrupt), brief_session({}, "x", []):
        interrupted()
    assert caplog.records == []
    spark.sparkContext.setLogLevel.assert_called_once_with("OFF")
    spark.stop.assert_called_once_with()
    assert signal.getsignal(signal.SIGINT) == before
    logging.getLogger("py4j").error("as ever")
    assert len(caplog.records) == 1


def test_ctrl_c_while_java_starts_ends_it_once_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Mock()

    def build(*_: Any) -> Mock:
        signal.raise_signal(signal.SIGINT)
        return spark

    monkeypatch.setattr(module, "build_session", build)
    with pytest.raises(KeyboardInterrupt), brief_session({}, "x", []):
        pytest.fail("it was to end")
    spark.stop.assert_called_once_with()
