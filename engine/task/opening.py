"""Opens what a task gets its rows from."""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import TaskLostError
from engine.exchange.frames import Place
from engine.exchange.receiver import Receiver
from engine.pipeline.stateful import Exchanged
from engine.state.contract import EventClock
from engine.task.blame import blaming
from engine.task.channel import Channel
from engine.task.inputs import OnBadRecord, open_input
from engine.task.intake import ExchangeIntake, Intake, SourceIntake
from engine.task.spec import Receiving, TaskSpec
from engine.wire.messages import Address
from engine.wire.tls import driver_context


def open_intake(
    spec: TaskSpec,
    channel: Channel,
    clock: EventClock,
    *,
    host: str,
    on_bad_record: OnBadRecord,
    is_full: Callable[[], bool],
) -> Intake:
    """Open the source's partitions, or listen for the tasks that send.

    :param host: where to listen.
    :param is_full: whether the sink takes no more in this epoch.
    :raises SourceError: a partition cannot be opened.
    :raises TaskLostError: it cannot be listened on.
    """
    if spec.reading is not None:
        source = open_input(spec.reading, on_bad_record)
        return SourceIntake(spec, spec.reading, source, channel, clock, is_full)
    assert spec.receiving is not None
    with blaming(TaskLostError, "listening for rows", spec.named):
        return _listening(spec, spec.receiving, channel, clock, host)


def _listening(
    spec: TaskSpec, receiving: Receiving, channel: Channel, clock: EventClock, host: str
) -> ExchangeIntake:
    relation = receiving.pipeline.source
    assert isinstance(relation, Exchanged)
    assert spec.dialing is not None
    context, certificate = driver_context() if spec.dialing.certificate else (None, None)
    senders = {
        Place(pipeline, task): side
        for side, pipelines in enumerate(relation.senders)
        for pipeline in pipelines
        for task in range(receiving.senders[pipeline])
    }
    receiver = Receiver(host, spec.dialing.secret, context, senders, relation.sides)
    address = Address(host, receiver.port, certificate)
    return ExchangeIntake(spec, receiver, relation.sides, address, channel, clock)
