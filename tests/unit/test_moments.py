"""Moments as texts, of any year."""

from __future__ import annotations

import pytest

from airflow_provider_continuous.plugins.formats import moment
from engine.base.moments import iso_timestamp, wall_ms_of
from engine.commands.result import format_time

SPELLED = {
    0: "1970-01-01T00:00:00.000Z",
    -1: "1969-12-31T23:59:59.999Z",
    1_795_174_660_561: "2026-11-20T11:37:40.561Z",
    253_402_300_799_999: "9999-12-31T23:59:59.999Z",
    253_402_300_800_000: "+10000-01-01T00:00:00.000Z",
    # Milliseconds that somebody has taken for seconds.
    1_795_174_660_561_000: "+58856-10-26T11:56:01.000Z",
    -62_135_596_800_000: "0001-01-01T00:00:00.000Z",
    -62_135_596_800_001: "0000-12-31T23:59:59.999Z",
    -62_167_219_200_001: "-0001-12-31T23:59:59.999Z",
    2**63 // 1000: "+294247-01-10T04:00:54.775Z",
}


@pytest.mark.parametrize(("wall_ms", "text"), SPELLED.items())
def test_a_moment_of_any_year_is_spelled_and_read(wall_ms: int, text: str) -> None:
    assert iso_timestamp(wall_ms) == text
    assert wall_ms_of(text) == wall_ms
    assert format_time(wall_ms) == text
    assert moment(wall_ms) == f"{text[:-5].replace('T', ' ')} UTC"


@pytest.mark.parametrize("text", ["", "now", "2026-01-01", "2026-01-01T00:00:00Z"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no moment"):
        wall_ms_of(text)
