"""A variable of a driver on a cluster, written so that it arrives as it is.

- YARN puts a variable into a shell script, between quotation marks that it does not escape; what
  looks like one of its own patterns it replaces before (``ContainerLaunch`` of Hadoop 3).
- Kubernetes takes ``$(NAME)`` for a reference, and ``$$`` for ``$``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

PREFIXES = {"yarn": "spark.yarn.appMasterEnv.", "kubernetes": "spark.kubernetes.driverEnv."}
"""Of the settings that are a driver's variables, by the kind of cluster."""
_OF_SHELL = re.compile(r'[\\"$`]')
_OF_YARN = re.compile(r"<(?=CPS>|LOG_DIR>)|\{(?=\{)|\}(?=\})")
"""Taken apart behind their first letter, by the end of a quotation and the begin of another."""


def as_it_arrives(key: str, value: str, variables: Mapping[str, str]) -> str:
    """Return the value of a setting; that of any other setting than of such a variable as it is.

    :param variables: the driver's; what else is said of its environment may be meant for the shell.
    """
    for manager, written in (("yarn", _for_yarn), ("kubernetes", _for_kubernetes)):
        prefix = PREFIXES[manager]
        if key.startswith(prefix) and variables.get(key.removeprefix(prefix)) == value:
            return written(value)
    return value


def _for_yarn(value: str) -> str:
    return _OF_YARN.sub(r'\g<0>""', _OF_SHELL.sub(r"\\\g<0>", value))


def _for_kubernetes(value: str) -> str:
    return value.replace("$", "$$")
