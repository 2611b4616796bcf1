"""The time zones of the JVM: every zone's rules as java.time has them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import ConfigError
from engine.expressions.times import zone_rules
from engine.expressions.times.zone_rules import JavaRules, PackageRules, go_by
from engine.expressions.times.zones import is_zone, zone
from engine.plan import java_zones
from engine.plan.java_zones import go_by_java_zones
from engine.plan.planner import plan_query

pytestmark = pytest.mark.spark
_MICROS = 1_000_000
_FIRST, _LAST = (
    int(datetime(year, 1, 1, tzinfo=timezone.utc).timestamp()) for year in (1800, 2200)
)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = zone_rules.rules()
    yield
    go_by(before)


@pytest.fixture
def rules(spark: SparkSession) -> JavaRules:
    go_by(PackageRules())
    return go_by_java_zones(spark.sparkContext._gateway)


def test_every_zone_is_as_javas(spark: SparkSession, rules: JavaRules) -> None:
    ids = sorted(spark._jvm.java.time.ZoneId.getAvailableZoneIds())  # type: ignore[union-attr]
    assert len(ids) > 500
    zones = [name for name in ids if rules.table(name) is not None]
    # Java has its fixed ones, UTC and the like, twice.
    assert [name for name in ids if not is_zone(name)] == []
    alike: dict[tuple[Any, ...], str] = {}
    differences: list[str] = []
    names, instants = [], []
    for name in zones:
        times, offsets, _ = rules.table(name)  # type: ignore[misc]
        first = alike.setdefault((times.tobytes(), offsets.tobytes()), name)
        changes = times[(times > _FIRST) & (times < _LAST)] if first == name else times[:0]
        step = 30 * 86_400 + 1 if first == name else 1_000 * 86_400
        around = [changes + delta for delta in (-3_601, -1, 0, 1, 1_800, 3_600)]
        asked = np.unique(np.concatenate([*around, np.arange(_FIRST, _LAST, step)])) * _MICROS
        names.append(np.full(len(asked), name, object))
        instants.append(asked)
    micros = np.concatenate(instants)
    table = pa.table(
        {
            "zone": pa.array(np.concatenate(names), pa.string()).dictionary_encode().cast("string"),
            "ts": pa.array(micros, pa.timestamp("us", "UTC")),
        }
    )
    theirs = spark.createDataFrame(table).selectExpr(
        "from_utc_timestamp(ts, zone) AS local", "to_utc_timestamp(ts, zone) AS utc"
    )
    collected = theirs.toArrow()
    local, utc = (
        collected.column(place).combine_chunks().cast(pa.int64()).to_numpy() for place in (0, 1)
    )
    start = 0
    for name, asked in zip(zones, instants, strict=True):
        end, here = start + len(asked), zone(name)
        for what, mine, java in (
            ("local", here.to_local(asked)[0], local[start:end]),
            ("utc", here.to_utc(asked)[0], utc[start:end]),
        ):
            if (wrong := np.flatnonzero(mine != java)).size:
                at = asked[wrong[0]]
                differences.append(f"{name}: {what} of {at}: {mine[wrong[0]]}, {java[wrong[0]]}")
        start = end
    assert differences == []


def test_short_ids_are_javas(spark: SparkSession, rules: JavaRules) -> None:
    short_ids = spark._jvm.java.time.ZoneId.SHORT_IDS  # type: ignore[union-attr]
    assert rules.short_ids == {name: short_ids[name] for name in short_ids}
    assert PackageRules().short_ids.keys() == rules.short_ids.keys()


def test_a_pipeline_brings_the_rules(spark: SparkSession) -> None:
    go_by(PackageRules())
    df = spark.readStream.format("rate").load().selectExpr("hour(timestamp) AS h")
    (pipeline,) = plan_query(df)
    assert zone_rules.rules() == pipeline.zone_rules
    assert len(pickle.dumps(pipeline.zone_rules)) < 50_000
    assert "packed" not in repr(pipeline)


class _Java:
    """A gateway to a JVM of another release, or one that runs elsewhere."""

    def __init__(self, home: str, version: str) -> None:
        self.jvm = self.java = self.lang = self.System = self.time = self.zone = self
        self.ZoneRulesProvider = self
        self._home, self._version = home, version

    def getProperty(self, name: str) -> str:
        return self._home

    def getVersions(self, name: str) -> _Java:
        return self

    def lastKey(self) -> str:
        return self._version


def test_another_file_than_the_jvms_is_refused(spark: SparkSession, tmp_path: Any) -> None:
    home = spark._jvm.java.lang.System.getProperty("java.home")  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="The JVM goes by release 1999a"):
        java_zones.go_by_java_zones(_Java(home, "1999a"))
    with pytest.raises(ConfigError, match="cannot be read"):
        java_zones.go_by_java_zones(_Java(str(tmp_path), "1999a"))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "tzdb.dat").write_bytes(b"\x01\x00")
    with pytest.raises(ConfigError, match="cut off or damaged"):
        java_zones.go_by_java_zones(_Java(str(tmp_path), "1999a"))
