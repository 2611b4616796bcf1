"""Python code as zip files, for machines where it is not installed.

A file's name carries a digest of what is in it, so the same code is zipped once, and a running
query keeps the version that it was started with.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path

from airflow_provider_continuous.deploy.half_written import whole

_EPOCH = (1980, 1, 1, 0, 0, 0)


def zip_package(package: Path, folder: Path) -> Path:
    """Zip a package so that it can be imported from the zip; return the path of the zip."""
    return _zip(package, package.parent, folder)


def zip_modules(source: Path, folder: Path) -> Path:
    """Zip the modules and packages of a folder; return the path of the zip.

    Python files only: data goes with Spark's ``files``.
    """
    return _zip(source, source, folder)


def _zip(source: Path, root: Path, folder: Path) -> Path:
    modules = {
        path.relative_to(root): path.read_bytes()
        for path in sorted(source.rglob("*.py"))
        if not any(part.startswith(".") for part in path.relative_to(source).parts)
    }
    # Where it has no entry of its own, many a Python takes no folder without __init__.py for a
    # package.
    folders = {each for path in modules for each in path.parents if each.name}
    contents = dict.fromkeys((f"{each.as_posix()}/" for each in sorted(folders)), b"")
    contents |= {path.as_posix(): content for path, content in modules.items()}
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    target = folder / f"{source.name}-{digest.hexdigest()[:16]}.zip"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Two tasks may make the same file at once: it appears whole or not at all.
    descriptor, made = tempfile.mkstemp(dir=folder, suffix=".tmp")
    with whole(Path(made)):
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, content in contents.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
        Path(made).replace(target)
    return target
