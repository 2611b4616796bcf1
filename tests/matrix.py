"""``python -m tests.matrix``: every module of the provider can be imported with this Airflow.

Or says which version, or which provider that is not installed here, it needs: those are named, and
count as right.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import airflow_provider_continuous
from airflow_provider_continuous.compat import AIRFLOW_VERSION

_RIGHT = ("came with Airflow", "No module named 'airflow.providers.openlineage'")


def main() -> int:
    """Import all; print what cannot be imported, and why."""
    package = airflow_provider_continuous
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    names = [module.name for module in found]
    without = [f"{name}: {error}" for name in names if (error := _import(name))]
    failures = [line for line in without if not any(reason in line for reason in _RIGHT)]
    print(f"Airflow {AIRFLOW_VERSION}: {len(names) - len(without)} of {len(names)} modules")
    print("\n".join(without))
    return 1 if failures or not names else 0


def _import(name: str) -> str:
    try:
        importlib.import_module(name)
    except Exception as error:  # whatever it is, it is to be told
        return repr(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
