"""AuditScreen: who did what to which process on this host, from the host's own file."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Footer, Input, OptionList
from textual.widgets.option_list import Option

from console.agent import protocol
from console.agent.protocol import printable
from console.host import lines
from console.host.audit import AuditEntry, entry_line, head_line, matches, merge_records
from console.host.errors import LinkError, RequestError
from console.host.figures import count_text
from console.screens.audit_entry import AuditEntryScreen
from console.screens.dialog import Clock, Dialog, DialogLink, Told, content, host_name, set_title

LIMIT = 500
DEADLINE_S = 15.0


class AuditScreen(Dialog[None]):
    """Lists the last actions on the host, newest first; enter shows one per target."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Close", id="audit.back", tooltip="Leave the filter, or close the list"),
        Binding("slash", "filter", "Filter", id="audit.filter", tooltip="Show only actions with these words"),
        Binding("R", "read", "Re-read", id="audit.read", tooltip="Read the host's audit file again"),
        Binding("down", "list", "List", show=False, id="audit.list", tooltip="From the filter to the list"),
    ]

    def __init__(self, link: DialogLink, *, clock: Clock = time.monotonic) -> None:
        super().__init__(clock=clock)
        self._link = link
        self._told = ""
        self._trouble = ""
        self.entries: list[AuditEntry] = []
        """All that was read, newest first."""

    def compose(self) -> ComposeResult:
        """Yield the filter, the list and what was read."""
        with Vertical(id="dialog", classes="dialog -full"):
            yield Input(placeholder="filter: words of the command, operator or outcome", id="filter", compact=True)
            yield Told("head")
            yield OptionList(id="entries", markup=False, compact=True)
            yield Told("status")
            yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Read the host's file."""
        set_title(self, f"Audit of {host_name(self._link)}")
        self.query_one("#entries", OptionList).focus()
        self.appeared()
        self.action_read()

    def action_read(self) -> None:
        """Read the host's file again."""
        self._told, self._trouble = "Reading the host's audit file…", ""
        self._draw()
        self.run_worker(self._read(), group="audit", exclusive=True, exit_on_error=False)

    async def _read(self) -> None:
        self._told = ""
        try:
            answer = await self._link.request(protocol.AUDIT, deadline_s=DEADLINE_S, limit=LIMIT)
            self.entries = merge_records(answer.get("records") or ())
        except (RequestError, LinkError) as error:
            self._trouble = f"The audit file was not read: {printable(str(error)).rstrip('.')}. Re-read to try again."
        except (TypeError, ValueError) as error:
            self._trouble = f"The host's answer cannot be understood: {printable(str(error))}."
        else:
            torn = answer.get("torn") or 0
            self._told = f"{printable(str(answer.get('path') or '?'))}: {count_text(len(self.entries), 'action')}"
            if len(answer.get("records") or ()) >= LIMIT:
                self._told += f" in the last {LIMIT} records"
            if torn:
                self._told += f", {count_text(int(torn), 'record')} unreadable"
            self._trouble = printable(str(answer.get("error") or ""))
        self._draw()

    def _draw(self) -> None:
        self.query_one("#dialog").styles.width = self.frame_width
        self.query_one("#dialog").styles.height = self.frame_height
        width = self.text_width
        self.query_one("#head", Told).tell([head_line(width)])
        wanted = self.query_one("#filter", Input).value
        shown = [entry for entry in self.entries if matches(entry, wanted)]
        self._fill(shown, width)
        told = self._told if len(shown) == len(self.entries) else f"{len(shown)} of {self._told}"
        status = [*lines.wrapped(self._trouble, width, tone=lines.BAD)] if self._trouble else []
        if told:
            status.append(((lines.crop(told, width), lines.DIM),))
        self.query_one("#status", Told).tell(status)

    def _fill(self, shown: list[AuditEntry], width: int) -> None:
        """Fill the list and put the cursor back on the entry it was on."""
        options = self.query_one("#entries", OptionList)
        at = None if options.highlighted is None else options.get_option_at_index(options.highlighted).id
        options.clear_options()
        options.add_options(Option(content([entry_line(entry, width)]), id=entry.action_id) for entry in shown)
        ids = [entry.action_id for entry in shown]
        options.highlighted = ids.index(at) if at in ids else (0 if ids else None)

    def on_resize(self) -> None:
        """Lay the list out for the new size."""
        if self.query("#dialog"):
            self._draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        event.stop()
        self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the list."""
        event.stop()
        self.action_list()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Show one action in full."""
        event.stop()
        entry = next((entry for entry in self.entries if entry.action_id == event.option_id), None)
        if entry is not None:
            self.app.push_screen(AuditEntryScreen(entry, host_name(self._link)))

    def action_filter(self) -> None:
        """Go to the filter."""
        self.query_one("#filter", Input).focus()

    def action_list(self) -> None:
        """Go to the list."""
        self.query_one("#entries", OptionList).focus()

    def action_back(self) -> None:
        """Leave the filter empty, or close the list."""
        wanted = self.query_one("#filter", Input)
        if wanted.has_focus or wanted.value:
            wanted.value = ""
            self.action_list()
        else:
            self.close(None)
