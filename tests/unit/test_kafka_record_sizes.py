"""What the sink's producer takes and refuses by itself, before any broker is asked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.clients.kafka import client_settings
from engine.errors import SinkCommitRejectedError
from engine.sinks.kafka.producers import Sender
from engine.sinks.kafka.records import OWNER, RecordFormat

ROWS = RecordFormat("orders", frozenset({"value"}))


def send(octets: int, **more: str) -> None:
    """One record to brokers that are not there."""
    given = {f"kafka.{name.replace('__', '.')}": text for name, text in more.items()}
    sender = Sender(client_settings(OWNER, {"kafka.bootstrap.servers": "127.0.0.1:1", **given}))
    try:
        sender.send(ROWS, pa.record_batch({"value": [b"x" * octets]}), hurry=False)
    finally:
        sender.drop()


def test_a_record_that_javas_client_would_write_is_taken() -> None:
    send(1_020_000)


@pytest.mark.parametrize(
    ("octets", "more"),
    [(1_100_000, {}), (2_000, {"message__max__bytes": "1000"}),
     (2_000, {"max__request__size": "1000"})],
)  # fmt: skip
def test_a_record_that_is_too_large_is_refused_with_the_option_that_allows_it(
    octets: int, more: dict[str, str]
) -> None:
    with pytest.raises(SinkCommitRejectedError, match="larger than Kafka's client may") as caught:
        send(octets, **more)
    assert caught.value.hint is not None
    assert "kafka.max.request.size" in caught.value.hint
    assert "max.message.bytes" in caught.value.hint


def test_a_larger_size_that_the_user_has_set_counts() -> None:
    send(1_100_000, max__request__size="2000000")
