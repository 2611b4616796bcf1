"""Modules of two specifications that may have the same names: an old version and a new one."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from importlib import invalidate_caches
from pathlib import Path
from types import ModuleType


def import_instead(
    folders: Sequence[Path], instead_of: Sequence[Path], known: Collection[str]
) -> None:
    """Import from these folders first, and anew what has been imported from the others.

    :param folders: the ``python_path`` of the specification that is built next.
    :param instead_of: that of the one before.
    :param known: ``sys.modules`` as it was before that one was built: this stays.
    """
    known_packages = {name.partition(".")[0] for name in known}
    forgotten = {
        name
        for name, module in list(sys.modules.items())
        if "." not in name
        and name not in known_packages
        and any(place in instead_of for place in _found_in(module))
    }
    for name in list(sys.modules):
        if name.partition(".")[0] in forgotten:
            del sys.modules[name]
    first = [str(folder) for folder in folders]
    sys.path[:] = [*first, *(entry for entry in sys.path if entry not in first)]
    invalidate_caches()


def _found_in(module: ModuleType) -> Iterator[Path]:
    """The entries of ``sys.path`` that a module may have come from."""
    for package in list(getattr(module, "__path__", ())):
        yield Path(package).parent
    file = getattr(module, "__file__", None)
    if file is not None and not hasattr(module, "__path__"):
        yield Path(file).parent
