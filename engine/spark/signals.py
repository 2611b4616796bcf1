"""Only the driver answers a signal.

Terminals, ``timeout``, systemd and containers send SIGTERM or SIGINT to a whole process group, or
to all processes they have started. The JVM would then end before the driver has drained its query,
and so would the Python workers. So the JVM ignores them (it ends with its driver, whose end it sees
by its standard input), and so do the workers of :mod:`engine.spark.daemon`.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def leave_signals_to_the_driver() -> None:
    """Have this process's JVM ignore what asks a process to end. SIGKILL still works.

    For the JVM that PySpark has started; one that spark-submit has started is the one which is
    signalled, and its driver the one which follows.
    """
    from pyspark import SparkContext

    java: Any = SparkContext._jvm
    assert java is not None, "a session is there, or its JVM"
    misc = java.sun.misc
    for number in END_SIGNALS:
        name = signal.Signals(number).name.removeprefix("SIG")
        misc.Signal.handle(misc.Signal(name), misc.SignalHandler.SIG_IGN)


def hold_back() -> None:
    """For a process that forks workers: no signal gets through, and its children begin so."""
    signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)


def let_pass_without_effect() -> None:
    """For a worker: handlers that do nothing. Unlike a blocked or an ignored signal they are not
    passed on to the programs that a user's code may start, and end."""
    for number in END_SIGNALS:
        signal.signal(number, _do_nothing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, END_SIGNALS)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass
