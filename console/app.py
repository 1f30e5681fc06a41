"""ConsoleApp: composes the link, the dashboard and the dialogs. What they do is theirs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.worker import Worker, WorkerState

from console.app_prompts import AppPrompts
from console.commands import BindingCommands
from console.crash import record_crash
from console.host.prompts import Prompts
from console.host.running import RunningActions
from console.keymap import check_keymap, sections
from console.link_protocol import Link
from console.places import all_places
from console.remembered import Remembered, load_remembered, save_remembered
from console.screens.dashboard import DashboardScreen
from console.settings import Settings
from console.themes import OWN_VARIABLES, choose_theme, load_themes

LinkFactory = Callable[[Prompts], Link]

CLOSE_DEADLINE_S = 3.0


class ConsoleApp(App[None]):
    """One operator, one host."""

    TITLE = "eagle3-console"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {BindingCommands}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", id="app.help", key_display="?", tooltip="All keys"),
        Binding("T", "pick_theme", "Theme", show=False, id="app.theme", tooltip="Choose a theme while looking at it"),
        Binding("q", "quit", "Quit", id="app.quit", tooltip="Leave the console; runs on the host go on"),
        Binding(
            "ctrl+q",
            "quit",
            "Quit",
            show=False,
            priority=True,
            id="app.quit_now",
            tooltip="Leave the console from anywhere",
        ),
        Binding(
            "ctrl+p",
            "command_palette",
            "Palette",
            show=False,
            priority=True,
            id="app.palette",
            tooltip="All commands, by name",
        ),
    ]

    def __init__(
        self,
        link_factory: LinkFactory,
        *,
        host_name: str,
        settings: Settings | None = None,
        remembered_path: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Compose the app; ``clock`` is the operator's wall clock.

        Raises:
            SettingsError: the keymap names a binding that does not exist, or gives one key two meanings.
        """
        super().__init__()
        self.settings = settings or Settings()
        if self.settings.keymap:
            # Not without need: it imports every screen, and the first data waits for that.
            check_keymap(self.settings.keymap, all_places(), (ConsoleApp,))
        self.link: Link = link_factory(AppPrompts(self))
        self.running_actions = RunningActions()
        self._host_name = host_name
        self._clock = clock
        self._remembered_path = remembered_path
        self._notices: list[str] = []
        self._start_themes()

    def _start_themes(self) -> None:
        self.loaded_themes, failed = load_themes()
        for loaded in self.loaded_themes.values():
            self.register_theme(loaded.theme)
        remembered, notice = load_remembered(self._remembered_path)
        self._notices += [notice] if notice else []
        self._notices += [f"A theme was left out. {each.reason}" for each in failed]
        self.theme, missing = choose_theme(self.loaded_themes, remembered.theme, self.settings.theme)
        self._notices += missing

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return our variables for themes that do not come from our files."""
        shade = 0 if self.current_theme.dark else 1
        return {name: pair[shade] for name, pair in OWN_VARIABLES.items()}

    def on_mount(self) -> None:
        """Start the link and show the host."""
        self.set_keymap(self.settings.keymap)
        self.link.listen(self.running_actions.take)
        self.run_worker(self.link.run(), name="link", group="link", exit_on_error=False)
        self.push_screen(
            DashboardScreen(self.link, self._host_name, self.settings.thresholds.limits(), clock=self._clock)
        )
        for notice in self._notices:
            self.notify(notice, severity="warning", timeout=15, markup=False)

    async def on_unmount(self) -> None:
        """End the link, whatever it is doing."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.link.close(), CLOSE_DEADLINE_S)

    def _fatal_error(self) -> None:
        # Textual's own way out prints the traceback, with the values of all variables, on the operator's terminal.
        error = self._exception or RuntimeError("unknown")
        self.panic(Text(record_crash(error)))

    @on(Worker.StateChanged)
    def _link_ended(self, event: Worker.StateChanged) -> None:
        if event.worker.name == "link" and event.state is WorkerState.ERROR:
            self.notify(f"The link ended: {event.worker.error}", severity="error", timeout=30, markup=False)

    @on(DashboardScreen.ActionRequested)
    def _plan(self, event: DashboardScreen.ActionRequested) -> None:
        from console.screens.plan import PlanScreen

        self.push_screen(PlanScreen(self.link, event.action, event.identities, scope=event.scope))

    @on(DashboardScreen.DetailRequested)
    def _detail(self, event: DashboardScreen.DetailRequested) -> None:
        from console.screens.detail import DetailScreen

        self.push_screen(DetailScreen(self.link, event.identity))

    @on(DashboardScreen.AuditRequested)
    def _audit(self) -> None:
        from console.screens.audit import AuditScreen

        self.push_screen(AuditScreen(self.link))

    def action_help(self) -> None:
        """Show all keys as they are now."""
        from console.keymap import Place
        from console.screens.help import HelpScreen

        first, *others = all_places()
        places = (first, Place("Everywhere", (ConsoleApp,)), *others)
        self.push_screen(HelpScreen(sections(places, self.settings.keymap), self._key_text))

    def _key_text(self, key: str) -> str:
        return self.get_key_display(Binding(key, ""))

    def action_pick_theme(self) -> None:
        """Choose a theme."""
        from console.screens.theme_picker import ThemePicker

        self.push_screen(ThemePicker(self.loaded_themes, self.theme), self._keep_theme)

    def _keep_theme(self, name: str | None) -> None:
        if name:
            try:
                save_remembered(Remembered(theme=name), self._remembered_path)
            except OSError as error:
                self.notify(f"The theme cannot be remembered: {error}", severity="warning", markup=False)

    async def action_quit(self) -> None:
        """Leave; asks first while an action is under way."""
        from console.screens.quit import QuitScreen

        names = list(self.running_actions.names.values())
        if not names:
            self.exit()
        elif not isinstance(self.screen, QuitScreen):
            self.push_screen(QuitScreen(names), self._leave)

    def _leave(self, leave: bool | None) -> None:
        if leave:
            self.exit()


def run_app(link_factory: LinkFactory, *, host_name: str, settings: Settings) -> int:
    """Run the console on a terminal until the operator leaves; return the exit code.

    Raises:
        SettingsError: the keymap does not fit.
    """
    app = ConsoleApp(link_factory, host_name=host_name, settings=settings)
    app.run()
    return app.return_code or 0
