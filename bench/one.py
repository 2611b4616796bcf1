"""``python -m bench.one MODULE ENGINE``: measures one engine in this process.

Apart from the rest, which knows all cases: the processes that a benchmark spawns import this again.
The last two lines that it prints are what it tells, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys

from bench.yardstick import yardstick_s


def main(module: str, engine: str) -> None:
    """Print what the module tells of the engine, and what the yardstick took beside it."""
    before_s = yardstick_s()
    importlib.import_module(module).main(engine)
    print(json.dumps({"yardstick": min(before_s, yardstick_s())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
