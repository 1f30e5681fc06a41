"""The places of the console, for the help screen and the check of the keymap."""

from __future__ import annotations

from console.keymap import Place


def all_places() -> tuple[Place, ...]:
    """Return every place with the classes whose keys work there. Imports all screens: call it when they are needed."""
    from console.screens.audit import AuditScreen
    from console.screens.audit_entry import AuditEntryScreen
    from console.screens.dashboard import DashboardScreen
    from console.screens.detail import DetailScreen
    from console.screens.help import HelpScreen
    from console.screens.hostkey import HostKeyScreen
    from console.screens.outcome import OutcomeScreen
    from console.screens.plan import PlanScreen
    from console.screens.quit import QuitScreen
    from console.screens.secret import SecretScreen
    from console.screens.theme_picker import ThemePicker
    from console.widgets.filter_bar import FilterBar
    from console.widgets.process_tree import ProcessTree

    return (
        Place("Dashboard", (DashboardScreen, ProcessTree)),
        Place("Filter", (FilterBar,)),
        Place("Plan of an action", (PlanScreen,)),
        Place("Action under way", (OutcomeScreen,)),
        Place("Detail of a process", (DetailScreen,)),
        Place("Audit", (AuditScreen,)),
        Place("Audit entry", (AuditEntryScreen,)),
        Place("Unknown host key", (HostKeyScreen,)),
        Place("Question for a secret", (SecretScreen,)),
        Place("Theme picker", (ThemePicker,)),
        Place("Help", (HelpScreen,)),
        Place("Quit", (QuitScreen,)),
    )
