"""The mutants of roads are hunted in long runs alone; that they fit the code is seen here."""

from __future__ import annotations

import inspect
import multiprocessing
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from types import FunctionType
from typing import Any

from tests.faults.levels import LEVELS
from tests.faults.roads.road import road_of

ROADS = [str(level.long["road"]) for level in LEVELS.values() if "road" in level.long]


def test_what_mutants_replace_is_called_as_before() -> None:
    """Else a query with one fails at once, which proves nothing."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        replaced, misfits = process.submit(_apply_all).result()
    assert not misfits
    assert replaced > len(ROADS), "each road has some"


def _apply_all() -> tuple[int, list[str]]:
    """How many functions of the engine all mutants replace, and those that are called otherwise."""
    replaced, misfits = 0, []
    for road in ROADS:
        mutants = road_of(road).mutants
        before = list(_functions())
        for name, apply in mutants.items():
            apply()
            for owner, attribute, right in before:
                wrong = vars(owner)[attribute]
                if wrong is right:
                    continue
                replaced += 1
                if isinstance(wrong, FunctionType) and not _is_called_alike(right, wrong):
                    misfits.append(f"{road}, mutant {name!r}: {owner.__name__}.{attribute}")
                setattr(owner, attribute, right)
    return replaced, misfits


def _functions() -> Iterator[tuple[Any, str, FunctionType]]:
    """Those of all modules and classes of the engine: whose each is, its name, and it itself."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("engine."):
            continue
        classes = [each for each in vars(module).values() if isinstance(each, type)]
        for owner in (module, *(each for each in classes if each.__module__ == name)):
            for attribute, value in vars(owner).items():
                if isinstance(value, FunctionType):
                    yield owner, attribute, value


def _is_called_alike(right: FunctionType, wrong: FunctionType) -> bool:
    """Whether one takes all that the other can be given, and as little."""
    given = inspect.signature(right).parameters.values()
    return all(_takes(wrong, each) for each in (given, [one for one in given if _is_needed(one)]))


def _takes(function: FunctionType, given: Any) -> bool:
    by_name: Mapping[str, Any] = {
        each.name: None for each in given if each.kind == each.KEYWORD_ONLY
    }
    places = [
        None for each in given if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    try:
        inspect.signature(function).bind(*places, **by_name)
    except TypeError:
        return False
    return True


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty
