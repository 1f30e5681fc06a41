"""The keys of the dashboard. Every one has an id for the keymap and a tooltip for the footer and the help."""

from __future__ import annotations

from textual.binding import Binding, BindingType

DASHBOARD_BINDINGS: list[BindingType] = [
    Binding(
        "p",
        "act('pause')",
        "Pause",
        id="process.pause",
        tooltip="Plan a pause (SIGSTOP) of this process and its tree",
    ),
    Binding(
        "r",
        "act('resume')",
        "Resume",
        id="process.resume",
        tooltip="Plan a resume (SIGCONT) of this process and its tree",
    ),
    Binding(
        "t",
        "act('stop')",
        "Terminate",
        id="process.stop",
        tooltip="Plan an orderly end (SIGTERM to the main process)",
    ),
    Binding(
        "K", "act('kill')", "Kill", id="process.kill", tooltip="Plan a kill (SIGKILL) of this process and its tree"
    ),
    Binding("enter", "detail", "Detail", id="process.detail", tooltip="Everything that is known of this process"),
    Binding("slash", "filter", "Filter", id="view.filter", tooltip="Show only processes that match a text"),
    Binding("s", "sort", "Sort", id="view.sort", tooltip="Sort by the next figure: gpu, cpu, rss, age, pid, command"),
    Binding(
        "g",
        "toggle_view('only_gpu')",
        "Only GPU",
        show=False,
        id="view.only_gpu",
        tooltip="Only processes that hold GPU memory",
    ),
    Binding(
        "m",
        "toggle_view('only_mine')",
        "Only mine",
        show=False,
        id="view.only_mine",
        tooltip="Only processes of the login's user",
    ),
    Binding(
        "e",
        "toggle_view('kernel')",
        "Kernel threads",
        show=False,
        id="view.kernel",
        tooltip="Show kernel threads as well",
    ),
    Binding("escape", "clear", "Clear filter", show=False, id="view.clear", tooltip="Show all processes again"),
    Binding(
        "a", "audit", "Audit", show=False, id="host.audit", tooltip="All actions that were ever taken on this host"
    ),
    Binding(
        "x",
        "dismiss_alerts",
        "Dismiss alerts",
        show=False,
        id="alerts.dismiss",
        tooltip="Take the alerts off the screen",
    ),
    Binding(
        "R", "reconnect", "Reconnect", show=False, id="link.retry", tooltip="Try to connect now instead of waiting"
    ),
]
