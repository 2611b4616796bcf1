"""What a specification's ``connections`` says, for the function that makes its query::

def orders(spark):
    from engine import connection_options, write_stream

    kafka = connection_options("kafka_main")
    stream = spark.readStream.format("kafka").options(**kafka).option("subscribe", "orders")
    return write_stream(stream.load()).format("noop")
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.errors import ConfigError

_given: dict[str, dict[str, str]] = {}


def give(connections: Mapping[str, Mapping[str, str]]) -> None:
    """Make these, and no others, known in this process."""
    _given.clear()
    _given.update((name, dict(options)) for name, options in connections.items())


def connection_options(name: str) -> dict[str, str]:
    """The options of a connection, secrets among them: for ``options(**...)``, and no other place.

    :param name: as in the specification's ``connections``.
    :raises ConfigError: it says nothing of this one.
    """
    if name not in _given:
        raise ConfigError(
            f"Nobody has given this query the connection {name!r}.",
            hint=f"Its specification, or the operator, names them under connections: there are "
            f"{', '.join(_given) or 'none'}.",
        )
    return dict(_given[name])
