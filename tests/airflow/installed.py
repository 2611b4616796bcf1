"""The provider as an installation of this source tree would be found, however the environment that
runs the tests was installed: entry points are read from metadata, not from ``pyproject.toml``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

_SOURCE = Path(__file__).parents[2]


def python_path(folder: Path) -> str:
    """Return a ``PYTHONPATH`` with this source tree and its metadata, written into a folder."""
    project = tomllib.loads((_SOURCE / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(filter(None, [str(folder), str(_SOURCE), *inherited]))
