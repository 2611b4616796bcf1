"""``replay`` before Spark is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.commands.command_line import main


@pytest.mark.parametrize(("option", "is_needed"), [("password", False), ("onBadRecord", True)])
def test_what_the_sink_alone_needs_may_be_unset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, is_needed: bool
) -> None:
    document = {
        "source": {"format": "rate"},
        "sink": {"format": "postgres", "options": {option: "${SET_BY_NOBODY}"}},
        "checkpoint_location": str(tmp_path / "missing"),
    }
    spec = tmp_path / "query.json"
    spec.write_text(json.dumps(document))
    missing = document["checkpoint_location"]
    assert main(["replay", str(missing), "--epoch", "0", "--spec", str(spec)]) == 2
    told = capsys.readouterr().err
    assert ("SET_BY_NOBODY is not set" in told) is is_needed
    assert ("There is no checkpoint" in told) is not is_needed
