"""One query: what it does now, its charts from the history, and its marks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Sparkline, Static

from engine.base.clock import SystemClock
from engine.base.daemon_threads import DaemonThreads
from engine.base.text_tables import count
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.query_history import history
from engine.commands.result import format_time
from engine.commands.terminal.looks import QueryLook, why
from engine.commands.terminal.texts import (
    columns,
    duration,
    printable,
    printable_lines,
    short,
    with_unit,
)
from engine.history.view import HistoryView

CHARTS: Final = (
    ("rows_in_per_second", "rows in"),
    ("rows_out_per_second", "rows out"),
    ("lag", "lag"),
    ("latency_p50", "latency p50"),
    ("latency_p99", "latency p99"),
    ("epoch_duration", "epoch"),
    ("commit_duration", "commit"),
    ("state_rows", "state"),
    ("bad_records", "bad records"),
    ("restarts", "restarts"),
)
WINDOWS: Final = {
    "1": (300, "5 min"),
    "2": (3_600, "1 h"),
    "3": (43_200, "12 h"),
    "4": (604_800, "7 d"),
}
_COLUMNS: Final = 120
_MARKS_SHOWN: Final = 8
_REFRESH_S: Final = 2.0
_WAIT_S: Final = 1.5


class QueryScreen(Screen[None]):
    """See the module.

    :param location: of its checkpoint.
    :param last_look: tells what was seen of it last; None: it is not there any more.
    :param asking: what reads its history, which may hang.
    :param ask_to_end: asks the person whether to ``drain`` or to ``stop`` it, then the query.
    """

    CSS = """
    QueryScreen Sparkline { height: 2; width: 100%; }
    QueryScreen .label { color: $text-muted; }
    #facts { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,backspace", "app.pop_screen", "Back"),
        *(Binding(key, f"window('{key}')", text) for key, (_, text) in WINDOWS.items()),
        Binding("d", "end('drain')", "Drain"),
        Binding("s", "end('stop')", "Stop"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(
        self,
        location: str,
        last_look: Callable[[], QueryLook | None],
        asking: DaemonThreads,
        ask_to_end: Callable[[str, QueryLook | None], None],
    ) -> None:
        super().__init__()
        self.location = location
        self._last_look = last_look
        self._asking = asking
        self._ask_to_end = ask_to_end
        self._window = "1"
        self._is_reading = False
        self._asked: tuple[Future[HistoryView | str], int, int] | None = None
        """What is under way, from when until when."""

    def compose(self) -> ComposeResult:
        yield Static(id="facts", markup=False)
        with VerticalScroll():
            for name, _ in CHARTS:
                yield Static(id=f"label-{name}", classes="label", markup=False)
                yield Sparkline([], id=f"chart-{name}", summary_function=max)
            yield Static(id="marks", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.set_interval(_REFRESH_S, self.reread)
        self.reread()

    def reread(self) -> None:
        """Read the history again, unless that is still under way."""
        if not self._is_reading:
            self._is_reading = True
            self.run_worker(self._read())

    def action_window(self, key: str) -> None:
        self._window = key
        self.reread()

    def action_end(self, kind: str) -> None:
        self._ask_to_end(kind, self._last_look())

    async def _read(self) -> None:
        now_ms = SystemClock().now_ms()
        from_ms = now_ms - WINDOWS[self._window][0] * 1000
        if self._asked is None:
            read = self._asking.submit(partial(_history, self.location, from_ms))
            self._asked = read, from_ms, now_ms
        read, from_ms, now_ms = self._asked
        shown: HistoryView | str = "The history has not answered yet."
        await asyncio.wait([asyncio.wrap_future(read)], timeout=_WAIT_S)
        if read.done():
            shown, self._asked = read.result(), None
        self._show(shown, from_ms, now_ms)

    def _show(self, read: HistoryView | str, from_ms: int, until_ms: int) -> None:
        self._is_reading = False
        if not self.is_attached or self not in self.app.screen_stack:
            return  # left: its parts are taken down, one by one, before its workers are ended
        found = self._last_look()
        facts = printable(self.location) if found is None else _facts(found, until_ms)
        if isinstance(read, str):
            self.query_one("#facts", Static).update(f"{facts}\n{printable_lines(read)}")
            return
        text = f"{facts}\nThe last {WINDOWS[self._window][1]}"
        if not read.starts_ms:
            text += f": {_why_empty(found, from_ms)}"
        self.query_one("#facts", Static).update(text)
        for name, label in CHARTS:
            chart = self.query_one(f"#chart-{name}", Sparkline)
            text_above = self.query_one(f"#label-{name}", Static)
            drawn = columns(read, name, from_ms, until_ms, _COLUMNS)
            known = [each for each in drawn if each is not None]
            chart.display = text_above.display = bool(known)
            if not known:  # it has no state, or no source that knows where it ends
                continue
            chart.data = [0.0, *(each or 0.0 for each in drawn)]  # from zero up
            unit = read.series[name].unit
            text_above.update(
                f"{label}: {with_unit(known[-1], unit)}, at most {with_unit(max(known), unit)}"
            )
        self.query_one("#marks", Static).update(_marks(read))


def _history(location: str, from_ms: int) -> HistoryView | str:
    try:
        return history(Checkpoint(location), from_ms)
    except Exception as exc:  # of whichever storage
        return why(exc)


def _why_empty(found: QueryLook | None, from_ms: int) -> str:
    """A checkpoint of Spark's own has commits and no history."""
    at_ms = None if found is None else found.committed_at_ms
    if at_ms is not None and at_ms < from_ms:
        return "no epoch was committed in it"
    return "there is no history of it"


def _facts(found: QueryLook, now_ms: int) -> str:
    status = found.status
    lines = [printable(f"{found.name}  {found.state}  {found.location}")]
    if status is not None:
        at_ms = found.committed_at_ms
        age = duration(None if at_ms is None else (now_ms - at_ms) / 1000)
        lines.append(
            f"epoch {status.epoch:,}, committed {age} ago, {short(found.rows_per_second)} rows/s, "
            f"lag {short(found.lag)}, p99 {short(found.p99_ms)} ms, "
            f"{count(status.restarts, 'restart')}"
        )
    if found.error:
        lines.append(printable_lines(found.error))
    return "\n".join(lines)


def _marks(read: HistoryView) -> str:
    told = [
        printable_lines(f"{format_time(mark.at_ms)}  {mark.kind:<12} {mark.reason}")
        for mark in reversed(read.marks[-_MARKS_SHOWN:])
    ]
    return "\n".join(["", *told]) if told else ""
