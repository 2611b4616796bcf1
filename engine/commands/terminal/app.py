"""``continuous top``: all queries, live."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, Final

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Header, Input, Static

from engine.base.clock import Clock, SystemClock
from engine.base.daemon_threads import DaemonThreads
from engine.base.text_tables import count
from engine.checkpoint.checkpoint import Checkpoint
from engine.checkpoint.requests import RequestKind
from engine.checkpoint.standing_by import may_be_asked, refuse_untold
from engine.commands.control import asker
from engine.commands.terminal.confirm import ConfirmScreen
from engine.commands.terminal.looks import Looks, QueryLook, why
from engine.commands.terminal.order import ORDERS, shown
from engine.commands.terminal.query_screen import QueryScreen
from engine.commands.terminal.query_table import QueryTable
from engine.commands.terminal.texts import printable, printable_lines

REFRESH_S: Final = 1.0
_LOOK_S: Final = 0.8
ANSWER_S: Final = 5.0
"""A checkpoint that does not answer for so long says so."""
_THREADS: Final = 16


class TopApp(App[None]):
    """See the module.

    :param places: see :class:`engine.commands.terminal.looks.Looks`.
    """

    TITLE = "continuous top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #filter { display: none; }
    #message { height: auto; max-height: 4; padding: 0 1; color: $text-muted; }
    .-short #filter { height: 1; border: none; padding: 0 1; }
    .-short #message { max-height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "end('drain')", "Drain"),
        Binding("s", "end('stop')", "Stop"),
        Binding("escape", "all", "All", show=False),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, places: Sequence[str], clock: Clock | None = None) -> None:
        super().__init__()
        # On few lines the list needs them most.
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall")]
        self._clock = clock or SystemClock()
        self._places = places
        self._looks = Looks(places, self._clock)
        # The app's own threads are waited for when it ends, however long a call hangs.
        self._looking = DaemonThreads(1, "top-looks")
        self._asking = DaemonThreads(_THREADS, "top-query")
        self._is_looking = False
        self._seen: Sequence[QueryLook] = ()
        self._order, self._text = next(iter(ORDERS)), ""
        self._by_location: dict[str, QueryLook] = {}

    def compose(self) -> ComposeResult:
        yield Header()
        yield QueryTable()
        yield Input(placeholder="a part of name, checkpoint, state or error", id="filter")
        yield Static("Looking for queries.", id="message", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        with suppress(NotImplementedError):  # Windows has no such signal
            # Else it would end at once, and leave the terminal as it was drawn on.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit)
        self._table.focus()
        self.set_interval(REFRESH_S, self.refresh_looks)
        self.refresh_looks()

    def refresh_looks(self) -> None:
        """Look again, unless that is still under way."""
        if not self._is_looking:
            self._is_looking = True
            self.run_worker(self._look())

    def _ask_to_end(self, kind: str, found: QueryLook | None) -> None:
        assert kind in ("drain", "stop")
        self.run_worker(self._end("drain" if kind == "drain" else "stop", found))

    # -- keys -----------------------------------------------------------------------------------

    def action_end(self, kind: str) -> None:
        self._ask_to_end(kind, self._table.selected)

    def action_order(self) -> None:
        """The next one."""
        names = list(ORDERS)
        self._order = names[(names.index(self._order) + 1) % len(names)]
        self._show_again()

    def action_filter(self) -> None:
        self._filter.display = True
        self._filter.focus()

    def action_all(self) -> None:
        """Show all again."""
        self._filter.value = ""
        self.on_input_submitted()

    def on_input_changed(self, changed: Input.Changed) -> None:
        self._text = changed.value
        self._show_again()

    def on_input_submitted(self) -> None:
        self._filter.display = bool(self._filter.value)
        self._table.focus()

    def on_query_table_selected(self) -> None:
        found = self._table.selected
        if found is not None:
            at = found.location
            last_look = partial(self._last_look, at)
            self.push_screen(QueryScreen(at, last_look, self._asking, self._ask_to_end))

    def on_query_table_highlighted(self) -> None:
        self._tell()

    # -- beside the keys ------------------------------------------------------------------------

    async def _look(self) -> None:
        looking = self._looking.submit(partial(self._looks.refresh, _LOOK_S))
        found = await asyncio.wrap_future(looking)
        self._show(found)

    async def _end(self, kind: RequestKind, found: QueryLook | None) -> None:
        """Ask the person, then the query."""
        somebody_runs_it: bool | None = False
        if found is not None and found.status is not None:
            state = found.status.state

            def may_be() -> bool:
                refuse_untold(found.location, state)
                return may_be_asked(Checkpoint(found.location).storage, state)

            somebody_runs_it = await self._answer(found, may_be)
        if somebody_runs_it is None or isinstance(self.screen, ConfirmScreen):
            return  # that was told; or the key was pressed twice
        if not somebody_runs_it or found is None:
            self.notify("No run holds the checkpoint.", severity="warning")
        elif await self.push_screen_wait(ConfirmScreen(kind, found.name)):
            await self._ask(kind, found)

    async def _ask(self, kind: RequestKind, found: QueryLook) -> None:
        assert found.status is not None
        run_id = found.status.run_id

        def ask() -> bool:
            Checkpoint(found.location).requests.ask(kind, by=asker("top"), run_id=run_id)
            return True

        if await self._answer(found, ask):
            self.notify(printable(f"{found.name} was asked to {kind}."), markup=False)

    async def _answer(self, found: QueryLook, ask: Callable[[], bool]) -> bool | None:
        """What a checkpoint says; None: it does not answer, which is told. What has not begun by
        then never does."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(self._asking.submit(ask)), ANSWER_S)
        except asyncio.TimeoutError:
            told = f"{found.name} has not answered for {ANSWER_S:.0f} s."
        except Exception as exc:  # of whichever storage
            told = why(exc)
        self.notify(printable_lines(told), severity="error", markup=False)
        return None

    # -- showing --------------------------------------------------------------------------------

    @property
    def _table(self) -> QueryTable:
        return self.screen_stack[0].query_one(QueryTable)

    @property
    def _filter(self) -> Input:
        return self.screen_stack[0].query_one("#filter", Input)

    def _last_look(self, location: str) -> QueryLook | None:
        return self._by_location.get(location)

    def _show(self, looks: Sequence[QueryLook]) -> None:
        self._is_looking = False
        if not self.is_running:  # its screens are taken down before its workers are ended
            return
        self._seen = looks
        self._by_location = {each.location: each for each in looks}
        self._show_again()

    def _show_again(self) -> None:
        """What was seen last, as it is wanted now. The cursor stays on its query."""
        found = shown(self._seen, self._order, self._text)
        self.sub_title = f"{len(found)} of {len(self._seen)}, by {self._order}"
        self._table.show(found, self._clock.now_ms())
        self._tell()

    def _tell(self) -> None:
        """Below the table: why the query under the cursor is not well, or that there is none."""
        found = self._table.selected
        lines = [self._progress()] if self._looks.is_finding else []
        if found is not None:
            lines.append(found.error or (found.status.message or "" if found.status else ""))
        elif self._seen:
            seen = count(len(self._seen), "query")
            lines.append(f"None of {seen} has {self._text!r}; Escape shows all.")
        elif not lines:
            lines.append(f"There is no checkpoint in {', '.join(self._places)}.")
        text = printable_lines("\n".join(filter(None, lines)))
        self.screen_stack[0].query_one("#message", Static).update(text)

    def _progress(self) -> str:
        folders, queries = self._looks.progress
        if not folders:
            return "Looking for queries."
        return (
            f"Looking for queries: {count(folders, 'folder')} looked at, {count(queries, 'query')} "
            "found so far."
        )
