"""Names of Java's packages and classes, asked for once.

For each part of ``jvm.org.apache.spark.sql`` py4j asks the JVM what it is, which looks for a class
of that name in hundreds of jars before it says that it is a package.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

_KINDS: Final[tuple[Any, ...]] = (JVMView, JavaPackage, JavaClass)


@contextmanager
def names_remembered() -> Iterator[None]:
    """Within it, what has a name keeps it: packages, classes and their static methods."""
    before = [kind.__getattr__ for kind in _KINDS]
    for kind, asked in zip(_KINDS, before, strict=True):
        kind.__getattr__ = _remembering(asked)
    try:
        yield
    finally:
        for kind, asked in zip(_KINDS, before, strict=True):
            kind.__getattr__ = asked


def _remembering(asked: Any) -> Any:
    def named(self: Any, name: str) -> Any:
        found = asked(self, name)
        # A package whose name begins as a class's does is a class that is not there yet.
        if isinstance(found, (JavaClass, JavaMember)) or (
            isinstance(found, JavaPackage) and name.islower()
        ):
            self.__dict__[name] = found
        return found

    return named
