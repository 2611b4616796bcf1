"""The list of queries. It draws the rows on the screen and no others: ten thousand cost no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from engine.commands.terminal.looks import QueryLook
from engine.commands.terminal.texts import UNKNOWN, duration, printable, short

_STYLES: Final = {
    "RUNNING": "green",
    "STALLED": "yellow",
    "RESTARTING": "yellow",
    "WAITING": "yellow",
    "FAILED": "red",
    "LOST": "red",
    "NO ANSWER": "red",
    "UNREADABLE": "red",
}


@dataclass(frozen=True)
class _Column:
    """:param width: None: as wide as its widest cell."""

    name: str
    width: int | None
    is_number: bool = True


_COLUMNS: Final = (
    _Column("query", None, is_number=False),
    _Column("state", 10, is_number=False),
    _Column("epoch", 11),
    _Column("committed", 10),
    _Column("rows/s", 7),
    _Column("lag", 7),
    _Column("p99 ms", 7),
    _Column("restarts", 8),
    _Column("checkpoint", None, is_number=False),
)


class QueryTable(ScrollView, can_focus=True):
    """See the module."""

    DEFAULT_CSS = """
    QueryTable { height: 1fr; background: $surface; color: $foreground; }
    QueryTable > .query-table--header { background: $panel; text-style: bold; }
    QueryTable > .query-table--even { background: $surface-lighten-1 50%; }
    QueryTable > .query-table--cursor {
        background: $block-cursor-background;
        color: $block-cursor-foreground;
        text-style: $block-cursor-text-style;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "query-table--header",
        "query-table--even",
        "query-table--cursor",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Charts"),
        Binding("o", "app.order", "Order"),
        Binding("slash", "app.filter", "Filter"),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,ctrl+home", "first", show=False),
        Binding("end,ctrl+end", "last", show=False),
    ]

    cursor: reactive[int] = reactive(0)
    """The row that is chosen, from 0."""

    class Highlighted(Message):
        """The cursor has gone to another row."""

    class Selected(Message):
        """The row under the cursor is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Sequence[QueryLook] = ()
        self._now_ms = 0
        self._widths = _widths(())

    @property
    def selected(self) -> QueryLook | None:
        """The query under the cursor."""
        return self.found[self.cursor] if self.cursor < len(self.found) else None

    def show(self, found: Sequence[QueryLook], now_ms: int) -> None:
        """Show these; the cursor stays on its query, if that is among them."""
        selected, self.found, self._now_ms = self.selected, found, now_ms
        self._widths = _widths(found)
        self.virtual_size = Size(sum(self._widths) + 2 * len(_COLUMNS), len(found) + 1)
        at = None if selected is None else selected.location
        same = (place for place, each in enumerate(found) if each.location == at)
        self.cursor = next(same, self.cursor)
        self.refresh()

    def validate_cursor(self, cursor: int) -> int:
        """Within the rows."""
        return max(0, min(cursor, len(self.found) - 1))

    def watch_cursor(self) -> None:
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.Highlighted())

    def on_resize(self) -> None:
        """The terminal's, or what is below has got more lines."""
        self._scroll_to_cursor()

    def _scroll_to_cursor(self) -> None:
        lines = max(1, self.size.height - 1)  # without the header, which stays
        first = round(self.scroll_y)
        if not first <= self.cursor < first + lines:
            top = self.cursor if self.cursor < first else self.cursor - lines + 1
            self.scroll_to(y=top, animate=False)

    def action_select(self) -> None:
        if self.found:
            self.post_message(self.Selected())

    def action_move(self, rows: int) -> None:
        self.cursor += rows

    def action_page(self, pages: int) -> None:
        self.cursor += pages * max(1, self.size.height - 1)

    def action_first(self) -> None:
        self.cursor = 0

    def action_last(self) -> None:
        self.cursor = len(self.found) - 1

    def on_click(self, event: events.Click) -> None:
        """Choose a row; the one under the cursor is selected."""
        row = event.y - 1 + round(self.scroll_y)
        if event.y < 1 or row >= len(self.found):
            return
        if row == self.cursor:
            self.action_select()
        self.cursor = row

    def render_line(self, y: int) -> Strip:
        """One line of the screen: the header, or a row."""
        x, first = self.scroll_offset
        row = first + y - 1
        style = self.rich_style
        if not y:
            style = self.get_component_rich_style("query-table--header")
            strip = self._strip([(column.name, "") for column in _COLUMNS], style)
        elif row < len(self.found):
            if row == self.cursor:
                style = self.get_component_rich_style("query-table--cursor")
            elif row % 2:
                style = self.get_component_rich_style("query-table--even")
            strip = self._strip(cells(self.found[row], self._now_ms), style)
        else:
            return Strip.blank(self.size.width, style)
        return strip.crop_extend(x, x + self.size.width, style)

    def _strip(self, line: Sequence[tuple[str, str]], style: Style) -> Strip:
        segments = []
        for column, width, (text, colour) in zip(_COLUMNS, self._widths, line, strict=True):
            if column.is_number:
                text = " " * (width - cell_len(text)) + text
            fitted = f" {set_cell_size(text, width)} "
            segments.append(Segment(fitted, style + Style.parse(colour) if colour else style))
        return Strip(segments)


def _widths(found: Sequence[QueryLook]) -> list[int]:
    widest = {
        "query": max((cell_len(printable(each.name)) for each in found), default=0),
        "checkpoint": max((cell_len(printable(each.location)) for each in found), default=0),
    }
    return [column.width or max(widest[column.name], len(column.name)) for column in _COLUMNS]


def cells(found: QueryLook, now_ms: int) -> list[tuple[str, str]]:
    """Text and colour of each column; no colour: the row's."""
    status = found.status
    age_s = None if found.committed_at_ms is None else (now_ms - found.committed_at_ms) / 1000
    return [
        (printable(found.name), ""),
        (found.state, _STYLES.get(found.state, "")),
        (UNKNOWN if status is None or status.epoch < 0 else f"{status.epoch:,}", ""),
        (UNKNOWN if age_s is None else f"{duration(age_s)} ago", ""),
        (short(found.rows_per_second), ""),
        (short(found.lag), ""),
        (short(found.p99_ms), ""),
        (UNKNOWN if status is None else str(status.restarts), ""),
        (printable(found.location), ""),
    ]
