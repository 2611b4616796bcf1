"""The moves of the simulated query in any order that hypothesis thinks of, and shrinks to the
shortest one that breaks a promise."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from engine.coordinator.events import DrainAsked, StopAsked
from tests.faults.processes import IO_ERROR, KILL, POWER, SLEEP, Fuse
from tests.faults.query import Driver
from tests.faults.world import SINKS, TOGETHER, TRANSACTIONS, World

faults = st.none() | st.builds(
    Fuse, st.sampled_from([KILL, POWER, SLEEP, IO_ERROR]), st.integers(1, 40)
)


class QueryMachine(RuleBasedStateMachine):
    """Each rule is one move of :class:`World`."""

    @initialize(seed=st.integers(0, 1000), sink=st.sampled_from((*SINKS, TRANSACTIONS, TOGETHER)))
    def begin(self, seed: int, sink: str) -> None:
        self.world = World(seed, sink)
        self.stack = ExitStack()
        self.stack.enter_context(self.world.installed())

    @property
    def driver(self) -> Driver | None:
        return self.world.current()

    @rule(fault=faults)
    def start(self, fault: Any) -> None:
        self.world.start_driver(fault)

    @precondition(lambda self: self.driver is not None)
    @rule(
        records=st.integers(0, 5),
        first_delivered=st.booleans(),
        in_report=faults,
        in_commit=faults,
    )
    def epoch(self, records: int, first_delivered: bool, in_report: Any, in_commit: Any) -> None:
        world, driver = self.world, self.driver
        assert driver is not None
        world.source.feed.add(records)
        for _ in range(len(world.inbox)):
            world.deliver(0 if first_delivered else len(world.inbox) - 1)
        for task in driver.tasks:
            world.read(task, records)
        world.elapse(driver)
        while world.markers:
            world.mark(0)
        for index, task in enumerate(driver.tasks):
            world.report(task, in_report if index == 0 else None)
        for _ in range(len(world.inbox)):
            world.deliver(0)
        world.carry_out(driver, in_commit)

    @precondition(lambda self: self.world.inbox)
    @rule(data=st.data(), repeat=st.booleans())
    def deliver(self, data: st.DataObject, repeat: bool) -> None:
        self.world.deliver(data.draw(st.integers(0, len(self.world.inbox) - 1)), repeat=repeat)

    @rule(data=st.data())
    def wake(self, data: st.DataObject) -> None:
        asleep = [each for each in self.world.machine.processes if each.alive and not each.awake]
        if asleep:
            self.world.wake(asleep[data.draw(st.integers(0, len(asleep) - 1))])

    @rule(fault=faults)
    def go_on(self, fault: Any) -> None:
        for driver in self.world.awake_drivers():
            self.world.carry_out(driver, fault)

    @precondition(lambda self: self.driver is not None)
    @rule(how=st.sampled_from(["kill", "freeze", "lose a task", "drain", "stop"]))
    def disturb(self, how: str) -> None:
        driver = self.driver
        assert driver is not None
        if how == "kill":
            driver.die()
        elif how == "freeze":
            driver.frozen = True
        elif how == "lose a task":
            self.world.lose_task(driver.tasks[0])
        else:
            self.world.ask(driver, DrainAsked() if how == "drain" else StopAsked())

    @rule(seconds=st.sampled_from([1, 11]), jump=st.sampled_from([0, -3600, 3600]))
    def time(self, seconds: int, jump: int) -> None:
        self.world.machine.clock.jump(jump)
        self.world.pass_time(seconds)

    @rule()
    def power(self) -> None:
        self.world.machine.lose_power()

    @rule(keep=st.integers(2, 4), fault=faults)
    def prune(self, keep: int, fault: Any) -> None:
        self.world.prune(keep, fault)

    @precondition(lambda self: self.world.rewindable)
    @rule(fault=faults)
    def rewind(self, fault: Any) -> None:
        self.world.rewind(fault)

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.5]))
    def slow_storage(self, seconds: float) -> None:
        self.world.machine.weather.delay_s = seconds

    @rule()
    def glimpse(self) -> None:
        self.world.glimpse()

    def teardown(self) -> None:
        if not hasattr(self, "stack"):
            return
        with self.stack:
            self.world.finish()
        assert self.world.broken == []


TestQuery = QueryMachine.TestCase
TestQuery.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
