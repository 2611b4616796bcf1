"""``python -m scripts.zip_bytecode`` puts bytecode into the zips that Spark has its Python import
PySpark from, in the environment that it runs in.

Python writes no bytecode into a zip: each of the hundreds of daemons that the tests have Spark
start would compile all of what it imports again. Whoever has installed PySpark by themselves has
zips without it; ``tests/system`` starts Spark there.
"""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

_ENTRIES = "pyspark.daemon, pyspark.worker, pyspark.sql.worker.lookup_data_sources"
"""What Spark starts."""
_TELL = f"import sys, {_ENTRIES}; print(*(vars(m).get('__file__') for m in sys.modules.values()))"


def main() -> None:
    """Do it where that is not done."""
    zips = sorted((Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    path = os.pathsep.join(str(each) for each in zips)
    told = subprocess.run(
        [sys.executable, "-c", _TELL],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for each in zips:
        prefix = f"{each}{os.sep}"
        found = {name.removeprefix(prefix) for name in told.stdout.split() if prefix in name}
        add_bytecode(each, sorted(name for name in found if name.endswith(".py")))


def add_bytecode(archive: Path, modules: list[str]) -> None:
    """Put the bytecode of this Python's version beside some modules of a zip.

    :param archive: replaced by another file: what was installed may be linked from elsewhere.
    :param modules: names in it, each once: ``pyspark/worker.py``. None: nothing is done.
    """
    if not modules:
        return
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / archive.name
        shutil.copyfile(archive, made)
        with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as content:
            for name in modules:
                compiled = f"{content.extract(name, folder)}c"
                py_compile.compile(
                    compiled[:-1],
                    compiled,
                    str(archive / name),
                    doraise=True,
                    # Behind the hash of a source nobody looks whether that has changed.
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )
                content.write(compiled, f"{name}c")
        made.replace(archive)


if __name__ == "__main__":
    main()
