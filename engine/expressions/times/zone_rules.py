"""Whose time zones this process goes by: those of the JVM that Spark runs on, or of a package.

Releases of the time zone database differ, and Java keeps what it knew of some zones before 1970
that others have merged. So the driver takes the rules of its own JVM as soon as it reads a query
(:mod:`engine.plan.java_zones`), and tasks get them with the pipeline: they need neither Java nor a
package to agree. There is one JVM to a process, and so one set of rules. What runs without Spark
goes by the package ``tzdata``.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, TypeVar

from engine.expressions.times.civil import Ints
from engine.expressions.times.tzdb import read_rules, read_tzdb
from engine.expressions.times.tzif import read_tzif

Table: TypeAlias = tuple[Ints, Ints, bool]
"""Transitions (seconds since 1970), the offsets before, between and after them (seconds), and
whether the last 400 years repeat."""
_Function = TypeVar("_Function", bound=Callable[..., object])

_SHORT_IDS: Final = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
_REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")


class ZoneRules(Protocol):
    """Where zones come from."""

    @property
    def short_ids(self) -> Mapping[str, str]:
        """What ids of three letters stand for: ``java.time.ZoneId.SHORT_IDS``."""

    def table(self, region: str) -> Table | None:
        """When the offset of a region such as ``Europe/Berlin`` changes; None if there is none."""


@dataclass(frozen=True)
class JavaRules:
    """Those of one JVM. Picklable, about 40 kB.

    :param version: of the database, e.g. ``2025a``.
    :param short_names: ids of three letters and what they stand for, which depends on the release.
    :param packed: the JVM's ``tzdb.dat``, deflated.
    """

    version: str
    short_names: tuple[tuple[str, str], ...]
    packed: bytes

    def __repr__(self) -> str:
        return f"JavaRules(version={self.version!r})"

    @property
    def short_ids(self) -> Mapping[str, str]:
        return dict(self.short_names)

    def table(self, region: str) -> Table | None:
        rules = _unpacked(self.packed).get(region)
        return None if rules is None else read_rules(rules)


@functools.lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> Mapping[str, bytes]:
    return read_tzdb(zlib.decompress(packed))[1]


class PackageRules:
    """Those of the package ``tzdata``."""

    short_ids: Mapping[str, str] = _SHORT_IDS

    def table(self, region: str) -> Table | None:
        if _REGION.fullmatch(region) is None or region == "Factory":
            return None
        resource = importlib.resources.files("tzdata").joinpath("zoneinfo", *region.split("/"))
        try:
            data = resource.read_bytes()
        except (OSError, ValueError):
            return None
        return read_tzif(data) if data.startswith(b"TZif") else None


_in_use: ZoneRules = PackageRules()
_forget: list[Callable[[], None]] = []


def rules() -> ZoneRules:
    """Those that this process goes by."""
    return _in_use


def go_by(taken: ZoneRules) -> None:
    """From now on, this process goes by these."""
    global _in_use
    if taken != _in_use:
        _in_use = taken
        for forget in _forget:
            forget()


def cached_by_rules(function: _Function) -> _Function:
    """As :func:`functools.cache`, of what depends on the rules of zones."""
    cached = functools.cache(function)
    _forget.append(cached.cache_clear)
    return functools.wraps(function)(cached)  # type: ignore[return-value]
