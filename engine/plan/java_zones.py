"""The time zones of the JVM that Spark's driver runs on: its rules, not anybody else's copy."""

from __future__ import annotations

import functools
import zlib
from pathlib import Path
from typing import Any, Final

from engine.errors import ConfigError
from engine.expressions.times.tzdb import read_tzdb
from engine.expressions.times.zone_rules import JavaRules, go_by

_HINT: Final = (
    "Start the driver's Python and its Java on one machine, with a Java whose lib/tzdb.dat is"
    " the one that it was started with."
)


def go_by_java_zones(gateway: Any) -> JavaRules:
    """From now on, this process takes time zones as the JVM behind a gateway does.

    :raises ConfigError: its file of time zones is not here, or not the one that it has read.
    """
    rules = _rules_of(gateway)
    go_by(rules)
    return rules


@functools.lru_cache(maxsize=1)
def _rules_of(gateway: Any) -> JavaRules:
    java = gateway.jvm.java
    file = Path(str(java.lang.System.getProperty("java.home")), "lib", "tzdb.dat")
    # A JVM may have been given other rules, or another file since it was started.
    used = str(java.time.zone.ZoneRulesProvider.getVersions("UTC").lastKey())
    try:
        data = file.read_bytes()
        version, _ = read_tzdb(data)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"The JVM's time zones cannot be read from {file}: {error}.", hint=_HINT
        ) from error
    if version != used:
        raise ConfigError(
            f"The JVM goes by release {used} of the time zones, and {file} has {version}.",
            hint=_HINT,
        )
    short_ids = java.time.ZoneId.SHORT_IDS
    names = tuple(sorted((str(name), str(short_ids[name])) for name in short_ids))
    return JavaRules(version, names, zlib.compress(data, 9))
