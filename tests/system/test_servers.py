"""``make servers``: the servers of the tests, for a person."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

pytest.importorskip("moto.server", reason="needs moto[server]")
pytest.importorskip("deltalake", reason="needs the extra delta")

from tests.servers import __main__ as program
from tests.servers.offered import SERVERS, MissingError, Shown
from tests.servers.process import answers

TRY = re.compile(r"    a Delta table:\n +(.*)\n")
LEFT = "Ctrl-C ends them all"


def test_a_server_is_shown_can_be_tried_and_ends(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.servers", "s3"],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "", "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdout is not None
    try:
        shown = ""
        while LEFT not in shown:
            line = process.stdout.readline()
            assert line, shown
            shown += line
        found = TRY.search(shown)
        assert found is not None
        tried = subprocess.run(["sh", "-c", found[1]], capture_output=True, text=True)
        assert "12.5" in tried.stdout, tried.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert rest == "Ending.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_takes_a_call_and_is_silent_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not answers(f"http://127.0.0.1:{silent.getsockname()[1]}", 0.2)


def test_what_is_not_there_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(folder: Path) -> AbstractContextManager[Shown]:
        raise MissingError("no such program: make install")

    monkeypatch.setattr(program, "SERVERS", dict.fromkeys(SERVERS, missing))
    assert program.main([]) == 1
    assert "Kafka\n    not available: no such program: make install\n" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        program.main(["mysql"])
    assert "there are Kafka" in capsys.readouterr().err
