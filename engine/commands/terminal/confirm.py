"""Asks before a query is drained or stopped."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from engine.checkpoint.requests import RequestKind
from engine.commands.terminal.texts import printable

_WHAT: Final = {
    "drain": "It finishes and commits its open epoch, then it ends.",
    "stop": "It ends now; its open epoch is read again next time.",
}


class ConfirmScreen(ModalScreen[bool]):
    """Closes with whether it was confirmed."""

    CSS = """
    ConfirmScreen { align: center middle; }
    #question { width: 64; max-width: 100%; height: auto; max-height: 100%; }
    #question { padding: 1 2; border: thick $warning; overflow-y: auto; }
    #question { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
    ]

    def __init__(self, kind: RequestKind, name: str) -> None:
        super().__init__()
        self._kind, self._name_of_query = kind, name

    def compose(self) -> ComposeResult:
        asked = f"{self._kind.capitalize()} {printable(self._name_of_query)}?"
        text = f"{asked}\n\n{_WHAT[self._kind]}\n\n"
        with Vertical(id="question"):
            yield Static(f"{text}y  yes, {self._kind} it      n  no", markup=False)

    def action_answer(self, confirmed: bool) -> None:
        self.dismiss(confirmed)
