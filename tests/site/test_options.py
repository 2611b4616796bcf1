"""docs/engine.md names every option of the engine."""

from __future__ import annotations

import re
from dataclasses import fields

from engine.base.options import EngineOptions
from tests.site.documents import DOCS


def test_every_option_is_named() -> None:
    text = (DOCS / "engine.md").read_text(encoding="utf-8")
    named = {name.lower() for name in re.findall(r"`(\w+)`", text)}
    absent = [
        field.name
        for field in fields(EngineOptions)
        if not {
            field.name.replace("_", ""),
            field.name.removesuffix("_ms").replace("_", ""),  # intervals have their units with them
        }
        & named
    ]
    assert absent == []
