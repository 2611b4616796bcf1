"""What ``import engine`` offers."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import engine


def test_no_public_name_is_hidden_by_a_module_of_the_same_name() -> None:
    for name in engine.__all__:
        home = engine._HOMES[name]
        assert not isinstance(getattr(engine, name), ModuleType)
        import_module(home)
        assert getattr(engine, name) is getattr(import_module(home), name)
