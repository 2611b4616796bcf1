"""``init``: a specification with comments, a DAG that runs it, and a test of both."""

from __future__ import annotations

import keyword
import re
import shlex
from argparse import Namespace
from importlib.resources import files
from pathlib import Path
from string import Template

from engine.commands.result import Result
from engine.errors import ConfigError
from engine.redaction.texts import encodable

_WRITTEN = ("query.yaml", "dag.py", "test_query.py", ".airflowignore")
_OF_THE_DAG = ("dag", "pendulum", "timedelta")
"""What the DAG's file calls something else."""
_RECORDS = Path("data", "in", "first.json")
_FIRST = """\
{"at":"2026-01-01T12:00:00Z","item":"apple","amount":3}
{"at":"2026-01-01T12:00:01Z","item":"pear","amount":30}
"""


def init(args: Namespace) -> Result:
    """Write them; what is there already is never overwritten.

    :raises ConfigError: a file is there already, or cannot be written.
    """
    folder = Path(args.directory).absolute()
    if str(folder) != encodable(str(folder)):
        raise ConfigError(
            f"The specification would name {folder}, which is no UTF-8.",
            hint="Choose another directory.",
        )
    name = _name(folder.name)
    texts = {Path(each): _filled(each, name, folder) for each in _WRITTEN}
    texts[_RECORDS] = _FIRST
    there = [str(each) for each in texts if (folder / each).exists()]
    if there:
        raise ConfigError(
            f"{folder} has {', '.join(there)} already, and nothing was written.",
            hint="Choose another directory.",
        )
    try:
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / path).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as exc:
        raise ConfigError(f"{folder} cannot be written to: {exc}.") from exc
    shown = "\n".join(f"  {folder / path}" for path in texts)
    command = shlex.join(["continuous", "run", str(folder / "query.yaml")])
    text = f"Written:\n{shown}\nNext: {command}"
    return Result({"directory": str(folder), "name": name, "files": [*map(str, texts)]}, text)


def _name(folder: str) -> str:
    """The query's and the DAG's: a word of Python."""
    name = re.sub(r"\W+", "_", folder, flags=re.ASCII).strip("_").lower()
    if not name.isidentifier() or keyword.iskeyword(name) or name in _OF_THE_DAG:
        name = f"query_{name}".rstrip("_")
    return name


def _filled(file: str, name: str, folder: Path) -> str:
    folder_of_ours = files("engine.commands") / "templates"
    text = (folder_of_ours / f"{file.removeprefix('.')}.template").read_text("utf-8")
    # As a text of YAML between quotes; what looks like a variable of the environment is none.
    path = str(folder).replace("\\", "\\\\").replace('"', '\\"').replace("${", "$${")
    return Template(text).substitute(name=name, folder=path)
