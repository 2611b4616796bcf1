"""``continuous errors``: the catalogue of errors, where there are no pages."""

from __future__ import annotations

import json
import re
import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from engine import errors as engine_errors
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.lease import Lease
from engine.checkpoint.query_state import QueryState
from engine.commands.command_line import main
from engine.commands.show_errors import catalogue, show_errors
from engine.errors import SinkUnavailableError
from tests.site.documents import DOCS

Captured = pytest.CaptureFixture[str]
CHECKPOINT = Path(__file__).parents[1] / "golden" / "checkpoints" / "spark-4.3-rate-continuous"


def told(capsys: Captured, *arguments: str) -> str:
    """By a command that ends well."""
    assert main(["errors", *arguments]) == 0
    return capsys.readouterr().out


def test_one_class(capsys: Captured) -> None:
    lines = told(capsys, "SinkUnavailableError").splitlines()
    assert lines[0] == "SinkUnavailableError"
    assert lines[1].startswith("The sink cannot be reached; ")
    assert lines[2] == "The query: restarts (`retrySinkFor`)."
    assert lines[3].startswith("Do: ")


@pytest.mark.parametrize(
    "name", ["sinkunavailableerror", "engine.errors.SinkUnavailableError", "SinkUnavailableError:"]
)
def test_a_class_as_people_copy_it(name: str, capsys: Captured) -> None:
    assert told(capsys, name).startswith("SinkUnavailableError\n")


def test_all_have_a_line_below_their_group(capsys: Captured) -> None:
    text = told(capsys)
    _, _, source = text.partition("\nSource:\n")
    assert re.search(r"^  SourceUnavailableError +The source cannot be reached$", source, re.M)
    named = re.findall(r"^  (\w+) ", text, re.MULTILINE)
    page = (DOCS / "errors.md").read_text(encoding="utf-8")
    assert named == re.findall(r"^### (\w+)$", page, re.MULTILINE)


def test_what_is_told_needs_no_page() -> None:
    """Its marks and addresses are for a site; what stands above is not seen."""
    for entry in catalogue():
        assert not re.search(r"\]\(|\*\*|^#|\babove\b|[Tt]he same,", entry.text), entry.name
        assert entry.text.strip()
    told = {entry.name: entry.text for entry in catalogue()}
    assert "the broker forgot, docs/troubleshooting.md" in told["OffsetOutOfRangeError"]


def test_a_class_that_is_not_there_is_told_its_neighbours(capsys: Captured) -> None:
    assert main(["errors", "SinkUnvailable"]) == 2
    assert "Did you mean SinkUnavailableError" in capsys.readouterr().err
    assert main(["errors", "xyz"]) == 2
    assert capsys.readouterr().err == (
        "continuous errors: There is no class of errors xyz. `continuous errors` lists all.\n"
    )


def test_for_programs(capsys: Captured) -> None:
    one = json.loads(told(capsys, "SinkError", "--json"))
    assert one == {"name": "SinkError", "group": "Sink", "text": one["text"]}
    assert one in json.loads(told(capsys, "--json"))["errors"]


def test_a_failure_names_the_command_that_tells_more(tmp_path: Path, capsys: Captured) -> None:
    torn = Path(shutil.copytree(CHECKPOINT, tmp_path / "torn"))
    (torn / "offsets" / "7").write_text("v1\n{")
    assert main(["status", str(torn)]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "(what to do: continuous errors CheckpointCorruptError)"


def test_the_error_of_a_query_names_the_command_too(tmp_path: Path, capsys: Captured) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.create_or_read_query_id("orders")
    error = SinkUnavailableError("The disk is away.")
    lease = Lease.acquire(checkpoint, run_id="a")
    lease.release(QueryState.FAILED, str(error), cause=error)

    def told_of() -> str:
        assert main(["status", str(tmp_path)]) == 0
        return capsys.readouterr().out

    assert re.search(r"^what to do +continuous errors SinkUnavailableError$", told_of(), re.M)
    path = tmp_path / "control" / "lease"
    path.write_text(path.read_text().replace("SinkUnavailableError", "x; rm -r /"))
    assert "what to do" not in told_of()


def test_a_class_of_the_users_own_is_looked_up_as_the_one_it_is_of(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    class MyBrokerAwayError(SinkUnavailableError):
        """As a connector of a user's own may have it."""

    def fails(_: Namespace) -> None:
        raise MyBrokerAwayError("The broker is away.")

    monkeypatch.setattr("engine.commands.status.status", fails)
    assert main(["status", "checkpoint"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "(what to do: continuous errors SinkUnavailableError)"


def test_a_class_of_the_engine_says_where_more_is(capsys: Captured) -> None:
    assert "continuous errors" in str(engine_errors.ContinuousError.__doc__)
    assert show_errors(Namespace(error="ContinuousError")).text.startswith("ContinuousError\n")
