"""Where a source ends by now, asked without Spark: for who waits until all of it is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from engine.errors import ConfigError
from engine.locations import local_path
from engine.options import Options
from engine.sources.folder import Folder, NameFilter


def _tail(options: Options) -> Any:
    path = local_path(options.required("path", example="/data/in"), "source tail")
    if not path.is_dir():
        raise ConfigError(
            f"Source tail: {path} is not a folder here.",
            hint="Whoever waits must see the folder that the query reads.",
        )
    return Folder(path, NameFilter(options.text("pathGlobFilter") or "*")).latest({})


ASKABLE: Final[dict[str, Callable[[Options], Any]]] = {"tail": _tail}
"""Format → what asks it."""


def latest_offset(source: Mapping[str, Any]) -> Any:
    """The offset behind everything that is in a source now.

    :param source: ``format`` and ``options``, as in a query's specification.
    :raises ConfigError: a source of this format cannot be asked, or its options are wrong.
    :raises SourceError: it cannot be reached.
    """
    name = str(source.get("format", "")).lower()
    ask = ASKABLE.get(name)
    if ask is None:
        raise ConfigError(
            f"A source of format {name!r} cannot be asked where it ends.",
            hint=f"These can: {', '.join(ASKABLE)}. For others, give the offsets, or a function "
            "that returns them.",
        )
    options = {key: str(value) for key, value in (source.get("options") or {}).items()}
    return ask(Options(f"source {name}", options))
