"""OutcomeScreen: what becomes of an action, live, per target; closing it stops nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import Button, Footer, ProgressBar

from console.agent.protocol import Identity
from console.host import lines, outcome_text, plan_text
from console.host.action_run import ActionRun
from console.host.lines import Line, Piece
from console.screens.dialog import Clock, Dialog, Lines, Told, set_title

TICK_S = 0.2
NOTICE_S = 12.0

KillPlan = Callable[[tuple[Identity, ...]], Screen[bool]]
"""Makes the dialog of the plan to kill these."""


def summary(run: ActionRun) -> Piece:
    """Return one sentence on where ``run`` stands, with its tone."""
    if run.never_sent:
        return run.trouble, lines.BAD
    if run.trouble and not run.finished:
        return run.trouble, lines.WARN
    return outcome_text.headline(run.outcome, run.elapsed_s)


class OutcomeScreen(Dialog[None]):
    """Follows one action to its end: per target what was sent and verified, then what is left and the next step."""

    AUTO_FOCUS: ClassVar[str | None] = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", id="outcome.close", tooltip="Close this; an action that runs goes on"),
        Binding("K", "kill", "Kill what is left", id="outcome.kill", tooltip="Plan a SIGKILL to what is still alive"),
        Binding("R", "ask", "Ask again", id="outcome.ask", tooltip="Read the host's audit file again; sends nothing"),
        Binding("up", "list('up')", "Up", show=False, id="outcome.up", tooltip="Scroll the processes up"),
        Binding("down", "list('down')", "Down", show=False, id="outcome.down", tooltip="Scroll the processes down"),
        Binding("pageup", "list('page_up')", "Page up", show=False, id="outcome.page_up", tooltip="A page up"),
        Binding("pagedown", "list('page_down')", "Page down", show=False, id="outcome.page_down", tooltip="A page"),
        Binding(
            "left", "app.focus_previous", "Left", show=False, id="outcome.left", tooltip="To the button on the left"
        ),
        Binding(
            "right", "app.focus_next", "Right", show=False, id="outcome.right", tooltip="To the button on the right"
        ),
    ]

    def __init__(self, run: ActionRun, host: str, kill_plan: KillPlan, *, clock: Clock = time.monotonic) -> None:
        super().__init__(clock=clock)
        self._run = run
        self._host = host
        self._kill_plan = kill_plan
        self._stop_watching: Callable[[], None] = lambda: None
        self._was_finished = False

    def compose(self) -> ComposeResult:
        """Yield the frame: where it stands, the countdown, the targets, what is left."""
        with Vertical(id="dialog", classes=f"dialog -{self._run.plan.action}"):
            yield Told("summary")
            yield ProgressBar(id="grace", show_eta=False, show_percentage=False)
            yield Lines("targets")
            yield Lines("around")
            with Horizontal(classes="buttons"):
                yield Button("Close", id="close")
            yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Start the action as the app's own work: it goes on when this screen is closed."""
        set_title(self, title(self._run, self._host))
        self.query_one("#dialog").border_subtitle = f"action {self._run.action_id}"
        self._stop_watching = self._run.watch(self._changed)
        self.set_interval(TICK_S, self._tick)
        self.app.run_worker(self._run.run(), group="actions", exit_on_error=False)
        self._draw()

    def on_unmount(self) -> None:
        """Stop drawing."""
        self._stop_watching()

    def _changed(self) -> None:
        if self.is_running:
            self._draw()

    def _tick(self) -> None:
        if not self._run.finished:
            self._draw_summary()

    def _draw(self) -> None:
        run, width = self._run, self.text_width
        fixed = self._draw_summary()
        targets = outcome_text.target_lines(run.outcome, width)
        if not targets:
            # Nothing is known of them yet, or never will be: the plan at least says which they are.
            head, rows = plan_text.target_table(run.plan, width)
            targets = [head, *rows]
        around: list[Line] = []
        if run.finished and not run.never_sent:
            around = outcome_text.aftermath_lines(run.outcome, width)
            if run.trouble:
                around = [*lines.wrapped(run.trouble, width, tone=lines.WARN), *around]
            if run.alive() and run.outcome.phase != "unknown":
                around.append(
                    ((f"Next step: {self.key_of('outcome.kill')} plans to kill what is left.", lines.STRONG),)
                )
        self.query_one("#targets", Lines).show(targets)
        self.query_one("#around", Lines).show(around)
        self._fit(fixed)
        self.refresh_bindings()
        if run.finished and not self._was_finished:
            self._was_finished = True
            self.appeared()
            if self.focused is None:
                self.query_one("#close", Button).focus()

    def _draw_summary(self) -> int:
        """Draw the headline and the countdown; return how many rows they take."""
        run = self._run
        text, tone = summary(run)
        shown = list(lines.wrapped(text, self.text_width, tone=tone))
        self.query_one("#summary", Told).tell(shown)
        bar = self.query_one("#grace", ProgressBar)
        bar.display = outcome_text.counts_down(run.outcome) and not run.finished and not run.trouble
        if bar.display:
            bar.update(total=run.outcome.grace_s, progress=min(run.elapsed_s, run.outcome.grace_s))
        return len(shown) + (1 if bar.display else 0)

    def _fit(self, fixed: int) -> None:
        self.query_one("#dialog").styles.width = self.frame_width
        targets, around = self.query_one("#targets", Lines), self.query_one("#around", Lines)
        chrome = 2 + 1 + (1 if self.app.size.height < 32 else 4)
        room = max(self.frame_height - chrome - fixed, 2)
        below = min(around.count, max(room - targets.count, room // 2))
        around.limit(below)
        targets.limit(room - below)

    def on_resize(self) -> None:
        """Lay the outcome out for the new size."""
        if self.query("#dialog"):
            self._draw()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Close the view."""
        event.stop()
        self.action_close()

    def action_close(self) -> None:
        """Close the view; when the action still runs, its end is told in a notification."""
        if not self._run.finished and self.is_current:
            notify_at_end(self.app, self._run, self._host)
        self.close(None)

    def action_kill(self) -> None:
        """Plan to kill what is still alive."""
        roots = self._run.alive()
        if roots and self.is_current:
            self.app.push_screen(self._kill_plan(roots))

    def action_ask(self) -> None:
        """Read the host's audit file again."""
        self._was_finished = False
        self.app.run_worker(self._run.ask_again(), group="actions", exit_on_error=False)

    def action_list(self, move: str) -> None:
        """Scroll the targets."""
        getattr(self.query_one("#targets", Lines), f"scroll_{move}")(animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only the keys that do something now."""
        if action == "kill":
            return bool(self._run.alive()) and not self._run.never_sent
        if action == "ask":
            return self._run.finished and self._run.outcome.phase == "unknown"
        return True


def title(run: ActionRun, host: str) -> str:
    """Return what was done where: ``Pause on gpu1``."""
    return f"{plan_text.verb(run.plan.action)} on {host}"


def notify_at_end(app: App[object], run: ActionRun, host: str) -> None:
    """Tell the operator that ``run`` goes on, and once more how it ended."""
    name = title(run, host)
    app.notify("It goes on on the host; its end is told here.", title=name, markup=False)

    def changed() -> None:
        if run.finished:
            stop()
            text, tone = summary(run)
            severity: SeverityLevel = "information" if tone == lines.GOOD else "error"
            app.notify(text, title=name, severity=severity, timeout=NOTICE_S, markup=False)

    stop = run.watch(changed)
