"""``mqtt``: the messages of topics, at least once.

==================  ============  ==============================================================
option              default
==================  ============  ==============================================================
url                               ``mqtt://host:1883``; how to log in, and certificates:
                                  :mod:`engine.clients.mqtt`
topics                            filters, with commas: ``plant/+/temperature,alarms/#``
sessionExpiry       7 days        so long the broker keeps messages while the query is away
receiveMaximum      10000         so many messages come that are not committed: 1 to 65535
retained            true          what the broker keeps of a topic is read at first
clientIdPrefix      continuous    of the client id, for the broker's access lists; that of a
                                  checkpoint stays
failOnDataLoss      true          a session that the broker has lost is an error; else the query
                                  goes on with what comes from now on, and the log tells so
==================  ============  ==============================================================

The columns are ``topic``, ``payload``, ``qos``, ``retain``, ``properties`` and ``timestamp``, when
it came. The subscription has QoS 1: a message is acknowledged when its epoch is in the commit log,
and not before; until then the broker has it, and sends it again to who resumes the session. With
QoS 2 the broker would forget it as soon as it was received (PUBREC), before it is committed.

MQTT has no positions. Offsets have the session's client id and count messages: an epoch that has to
be run again is run without rows, and its messages come again in later ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from pyspark.sql.datasource import DataSource

from engine.base.connector_options import Options
from engine.base.options import parse_interval_ms
from engine.clients.mqtt import LOGIN_OPTIONS, MqttServer
from engine.errors import ConfigError, SourceUnavailableError
from engine.expressions.types import schema_to_spark
from engine.sources.contract import (
    TUNING_OPTIONS,
    DataSourceContinuousReader,
    Offset,
    PartitionReader,
)
from engine.sources.mqtt.filters import is_filter
from engine.sources.mqtt.partition_reader import MqttPartitionReader, NothingAgain
from engine.sources.mqtt.rows import OWNER, SCHEMA
from engine.sources.mqtt.session import Position, SessionOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

EXPIRY_S_MAX: Final = 2**32 - 2
"""One second more is for ever."""
RECEIVE_MAX: Final = 10_000


class MqttSource(DataSource):
    """See the module."""

    def __init__(self, options: Mapping[str, str]) -> None:
        taken = Options(OWNER, options)
        server = MqttServer.of(OWNER, taken)
        named = taken.required("topics", example="plant/#").split(",")
        topics = tuple(dict.fromkeys(name.strip() for name in named if name.strip()))
        if not topics:
            raise taken.wrong("topics", ",", "filters of topics, with commas")
        for each in topics:
            if not is_filter(each):
                raise ConfigError(
                    f"{OWNER}: option topics: {each[:100]!r} is no filter.",
                    hint="+ and # stand for whole levels, # for the last: plant/+/temperature, "
                    "alarms/#, $share/readings/plant/#.",
                )
        expiry = taken.text("sessionExpiry") or "7 days"
        expiry_s = parse_interval_ms(expiry, f"{OWNER}: option sessionExpiry") // 1_000
        if not 1 <= expiry_s <= EXPIRY_S_MAX:
            raise taken.wrong("sessionExpiry", expiry, "from a second to 136 years")
        self._options = SessionOptions(
            server,
            topics,
            taken.text("clientIdPrefix") or "continuous",
            expiry_s,
            taken.integer("receiveMaximum", RECEIVE_MAX, minimum=1, maximum=65_535),
            taken.boolean("retained", True),
            taken.boolean("failOnDataLoss", True),
        )
        taken.refuse_others()

    @classmethod
    def name(cls) -> str:
        return "mqtt"

    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType.fromJson(schema_to_spark(SCHEMA))

    def continuousReader(self, schema: StructType) -> MqttReader:
        return MqttReader(self._options, SCHEMA.names)

    def streamReader(self, schema: StructType) -> NoReturn:
        """Spark's micro-batches read a range of offsets, and there is none."""
        raise ConfigError(
            f"{OWNER} is for continuous queries.",
            hint='Start it by write_stream(df).trigger(continuous="1 second").',
        )


@dataclass(frozen=True)
class SessionPartition:
    """The only one: who else resumed the session would take it away.

    :param new: topics of which nothing was read before.
    """

    start: Position
    new: tuple[str, ...]

    @property
    def name(self) -> str:
        """The same after a restart."""
        return self.start.client


class MqttReader(DataSourceContinuousReader):
    """The driver's side."""

    keepsCommitted = False
    tuningOptions = (
        *TUNING_OPTIONS, *LOGIN_OPTIONS, "sessionExpiry", "receiveMaximum", "retained",
        "clientIdPrefix", "failOnDataLoss",
    )  # fmt: skip
    """An offset has its ``clientIdPrefix``, and is refused with another."""

    def __init__(self, options: SessionOptions, columns: Sequence[str]) -> None:
        self._options, self._columns = options, tuple(columns)

    def initialOffset(self) -> Offset:
        return self._options.begin(ConfigError).offset

    def partitions(self, start: Offset) -> Sequence[SessionPartition]:
        known = Position.of(start)
        return [SessionPartition(*self._options.resume(known, SourceUnavailableError))]

    def open(self, partition: SessionPartition, until: Offset | None = None) -> PartitionReader:
        if until is not None:
            return NothingAgain(until)
        return MqttPartitionReader(self._options, partition.start, partition.new, self._columns)

    def mergeOffsets(self, offsets: Sequence[Offset]) -> Offset:
        (offset,) = offsets
        return offset

    def prune(self, columns: Sequence[str]) -> MqttReader | None:
        return MqttReader(self._options, columns) if columns else None
