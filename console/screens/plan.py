"""PlanScreen: the frozen plan of one action; nothing is sent before its button is pressed on purpose."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Footer

from console.agent import protocol
from console.agent.protocol import Identity, ProtocolError, printable
from console.host import actions, lines, plan_text
from console.host.action_run import ActionRun
from console.host.actions import DEFAULT_GRACE_S, Plan
from console.host.confirm import objection
from console.host.errors import LinkError, RequestError
from console.host.figures import count_text
from console.host.lines import Line
from console.screens.dialog import Clock, Dialog, DialogLink, Lines, Told, host_name, is_up, set_title
from console.screens.outcome import OutcomeScreen

GRACE_STEP_S, MIN_GRACE_S, MAX_GRACE_S = 5.0, 5.0, 600.0
TICK_S = 0.25
_VARIANTS = {protocol.PAUSE: "warning", protocol.RESUME: "success", protocol.STOP: "error", protocol.KILL: "error"}
_GRACE = Binding.Group("Grace", compact=True)


class PlanScreen(Dialog[bool]):
    """Shows what an action would do to which processes; returns True once it was sent, False when it was cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="plan.cancel", tooltip="Close this; nothing is sent"),
        Binding("o", "scope", "Only/tree", id="plan.scope", tooltip="Only what was chosen, or all that belongs to it"),
        Binding("a", "add", "Add related", id="plan.add", tooltip="Take the related GPU holders in, and read again"),
        Binding("R", "read", "Re-read", id="plan.read", tooltip="Read the host again and make a new plan"),
        Binding("w", "whole", "Wrap", id="plan.whole", tooltip="Show commands whole or one line each"),
        Binding("plus,equals_sign", "grace(1)", "Grace", id="plan.longer", group=_GRACE, tooltip="Wait 5 s longer"),
        Binding("minus", "grace(-1)", "Grace", id="plan.shorter", group=_GRACE, tooltip="Wait 5 s less"),
        Binding("up", "list('up')", "Up", show=False, id="plan.up", tooltip="Scroll the processes up"),
        Binding("down", "list('down')", "Down", show=False, id="plan.down", tooltip="Scroll the processes down"),
        Binding("pageup", "list('page_up')", "Page up", show=False, id="plan.page_up", tooltip="A page up"),
        Binding("pagedown", "list('page_down')", "Page down", show=False, id="plan.page_down", tooltip="A page down"),
        Binding("home", "list('home')", "First", show=False, id="plan.first", tooltip="The first process"),
        Binding("end", "list('end')", "Last", show=False, id="plan.last", tooltip="The last process"),
        Binding("left", "app.focus_previous", "Left", show=False, id="plan.left", tooltip="To the button on the left"),
        Binding("right", "app.focus_next", "Right", show=False, id="plan.right", tooltip="To the button on the right"),
    ]

    def __init__(
        self,
        link: DialogLink,
        action: str,
        roots: tuple[Identity, ...],
        *,
        scope: str = protocol.TREE,
        grace_s: float = DEFAULT_GRACE_S,
        clock: Clock = time.monotonic,
    ) -> None:
        super().__init__(clock=clock)
        self._link = link
        self._action = action
        self._roots = roots
        self._scope = scope
        self._grace_s = grace_s
        self._whole = False
        self._read_at = 0.0
        self._trouble = ""
        self._gpus: Mapping[Identity, int] = {}
        self.plan: Plan | None = None
        """The frozen plan on the screen; None while it is read or could not be."""

    def compose(self) -> ComposeResult:
        """Yield the frame: what, to whom, what else, whether it may be confirmed, the two buttons."""
        with Vertical(id="dialog", classes=f"dialog -{self._action}"):
            yield Told("summary")
            yield Told("head")
            yield Lines("targets")
            yield Lines("around")
            yield Told("status")
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel")
                yield Button(plan_text.verb(self._action), id="confirm", disabled=True)
            yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Ask the host for the plan."""
        set_title(self, f"{plan_text.verb(self._action)} on {host_name(self._link)}")
        self.query_one("#confirm", Button).variant = _VARIANTS.get(self._action, "primary")
        self.set_interval(TICK_S, self._tick)
        self._read()

    def _read(self) -> None:
        """Make a new plan; until it is there, nothing can be confirmed and Cancel has the focus."""
        self.plan, self._trouble = None, ""
        self._show()
        self.run_worker(self._make_plan(), group="plan", exclusive=True, exit_on_error=False)

    async def _make_plan(self) -> None:
        try:
            plan = await actions.make_plan(
                self._link, self._action, self._roots, scope=self._scope, grace_s=self._grace_s
            )
        except (RequestError, LinkError) as error:
            key = self.key_of("plan.read")
            self._trouble = f"The host made no plan: {printable(str(error)).rstrip('.')}. {key} reads the host again."
        except (ProtocolError, KeyError, TypeError, ValueError) as error:
            self._trouble = f"The host's plan cannot be understood ({printable(repr(error))}): nothing was sent."
        else:
            self.plan, self._read_at = plan, self.clock()
            self._gpus = plan_text.gpu_counts(self._link.state, (*plan.spared, *plan.candidates))
        self._show()
        if self.plan is not None:
            self.appeared()
            # Painting may take a while on a slow terminal: the operator has had time to read only from then on.
            self.call_after_refresh(self.appeared)

    def _show(self) -> None:
        """Draw the plan anew, with the focus on Cancel."""
        self.query_one("#cancel", Button).focus()
        self._draw()
        self._check()
        self.refresh_bindings()

    def _draw(self) -> None:
        plan, width = self.plan, self.text_width
        summary: list[Line] = []
        head: list[Line] = []
        rows: list[Line] = []
        around: list[Line] = []
        if plan is not None:
            summary = [
                *lines.wrapped(plan.summary, width, tone=lines.STRONG),
                *lines.wrapped(plan_text.counts_text(plan), width, tone=lines.DIM),
                *plan_text.refusal_lines(plan, width),
            ]
            if plan.targets:
                table_head, rows = plan_text.target_table(plan, width, whole=self._whole)
                head = [table_head]
            around = plan_text.around_lines(plan, width, self._gpus)
        elif self._trouble:
            summary = list(lines.wrapped(self._trouble, width, tone=lines.BAD))
        else:
            summary = [lines.line("Reading the host…")]
        self.query_one("#summary", Told).tell(summary)
        self.query_one("#head", Told).display = bool(head)
        self.query_one("#head", Told).tell(head)
        self.query_one("#targets", Lines).show(rows)
        self.query_one("#around", Lines).show(around)
        self._fit(len(summary) + len(head))
        confirm = self.query_one("#confirm", Button)
        confirm.label = plan_text.verb(self._action)
        if plan is not None and plan.targets:
            confirm.label = f"{plan_text.verb(self._action)} {count_text(len(plan.targets), 'process')}"

    def _fit(self, fixed: int) -> None:
        """Share the rows of the terminal between the processes and what surrounds them."""
        dialog = self.query_one("#dialog")
        dialog.styles.width = self.frame_width
        targets, around = self.query_one("#targets", Lines), self.query_one("#around", Lines)
        chrome = 2 + 1 + 1 + (1 if self.app.size.height < 32 else 4)
        room = max(self.frame_height - chrome - fixed, 2)
        below = min(around.count, max(room - targets.count, room // 2))
        around.limit(below)
        targets.limit(room - below)

    def _tick(self) -> None:
        dialog = self.query_one("#dialog")
        dialog.border_subtitle = f"read {self.clock() - self._read_at:.0f} s ago" if self.plan else ""
        self._check()

    def _objection(self) -> str:
        return objection(
            self.plan,
            plan_age_s=self.clock() - self._read_at,
            data_age_s=self._link.data_age_s(),
            link_up=is_up(self._link),
        )

    def _check(self) -> str:
        """Enable or disable the action button; return why it is disabled."""
        reason = self._objection()
        confirm = self.query_one("#confirm", Button)
        if reason and confirm.has_focus:
            self.query_one("#cancel", Button).focus()
            # An enter on its way to the button was not meant for Cancel: it is dropped, so that the reason is read.
            self.appeared()
        confirm.disabled = bool(reason)
        shown = reason if self.plan is not None and not self.plan.refusal else ""
        self.query_one("#status", Told).tell([lines.line((shown, lines.WARN))])
        return reason

    def on_resize(self) -> None:
        """Lay the plan out for the new size."""
        if self.query("#dialog"):
            self._draw()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Cancel, or carry the plan out when nothing stands against it."""
        event.stop()
        if event.button.id == "cancel":
            self.action_cancel()
        elif not self.guarded() and not self._check():
            self._carry_out()

    def _carry_out(self) -> None:
        plan = self.plan
        if plan is None or not self.is_current:
            return
        # Taken off the screen first: a second press finds no plan to send again.
        self.plan = None
        app = self.app
        outcome = OutcomeScreen(ActionRun(self._link, plan), host_name(self._link), self._kill_plan, clock=self.clock)
        self.dismiss(True)
        app.push_screen(outcome)

    def _kill_plan(self, roots: tuple[Identity, ...]) -> PlanScreen:
        return PlanScreen(self._link, protocol.KILL, roots, clock=self.clock)

    def action_cancel(self) -> None:
        """Close the dialog; nothing is sent."""
        self.close(False)

    def action_read(self) -> None:
        """Read the host again."""
        self._read()

    def action_scope(self) -> None:
        """Change between the one process and all that belongs to it, and read again."""
        self._scope = protocol.ONLY if self._scope == protocol.TREE else protocol.TREE
        self._read()

    def action_add(self) -> None:
        """Take the candidates into the roots and read again."""
        if self.plan is not None:
            self._roots = (*self._roots, *(p.identity for p in self.plan.candidates if p.identity not in self._roots))
            self._read()

    def action_whole(self) -> None:
        """Show commands whole, or one line each."""
        self._whole = not self._whole
        self._draw()

    def action_grace(self, steps: int) -> None:
        """Wait longer or shorter for the end; the targets stay as they are."""
        if self.plan is not None:
            self._grace_s = min(max(self._grace_s + steps * GRACE_STEP_S, MIN_GRACE_S), MAX_GRACE_S)
            self.plan = replace(self.plan, grace_s=self._grace_s)
            self._draw()

    def action_list(self, move: str) -> None:
        """Scroll the processes without leaving the button."""
        getattr(self.query_one("#targets", Lines), f"scroll_{move}")(animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only the keys that do something now."""
        if action == "add":
            return bool(self.plan and self.plan.candidates)
        if action == "grace":
            return self._action == protocol.STOP
        return True
