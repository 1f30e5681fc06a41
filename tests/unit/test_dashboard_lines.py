"""GPUs, host, alerts and processes as lines of text: what is said, what is left out, that it fits."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.host import lines
from console.host.alert_lines import alert_lines, open_alerts
from console.host.gpu_lines import driver_line, gpu_lines, owner, panel_title, small_lines
from console.host.history import UtilisationHistory
from console.host.host_lines import chip, gauges_line, identity_line, missing_text
from console.host.layout_figures import process_columns
from console.host.lines import BAD, DIM, GOOD, WARN, Line, plain
from console.host.link import CLOSED, CONNECTING, REFUSED, UP, WAITING, LinkStatus
from console.host.names import process_name
from console.host.process_line import ghost_line, heading_line, pause_text, process_line
from console.host.running import RunningActions
from console.host.state import Alert, Gauges, Gpu, GpuDriver, GpuProcess, HostState, Pause
from console.host.thresholds import Thresholds
from console.host.tree import TreeRow, TreeView, build_rows
from console.widgets.link_banner import banner_lines
from console.widgets.snapshot import Snapshot
from tests.scripted import (
    CLIENT_PID,
    GIB,
    PAUSED_PID,
    SERVER_PID,
    WALL,
    changed,
    failing_state,
    identity_of,
    process,
    sample_gauges,
    sample_state,
    with_processes,
)

LIMITS = Thresholds()


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def width_of(line: Line) -> int:
    return sum(lines.cells(text) for text, _ in line)


def tone_of(line: Line, part: str) -> str:
    return next(tone for text, tone in line if part in text)


def gpu_texts(state: HostState, width: int = 120) -> list[str]:
    return [plain(line) for line in gpu_lines(state, UtilisationHistory(), width, LIMITS)]


@given(st.integers(60, 260), st.booleans())
def test_gpu_lines_fit(width: int, failing: bool) -> None:
    state = failing_state() if failing else sample_state()
    for line in gpu_lines(state, UtilisationHistory(), width, LIMITS):
        assert width_of(line) <= width
    for line in small_lines(state, width, LIMITS):
        assert width_of(line) <= width


def test_a_gpu_line_tells_memory_use_heat_power_and_owner() -> None:
    shown = gpu_texts(sample_state())
    assert len(shown) == 8
    for part in ("74.6/95.6 G", "97%", "71°C", "412/600 W", "sglang::scheduler_TP0"):
        assert part in shown[0]
    assert "+1" in shown[5] and "sglang::scheduler_TP5" in shown[5]


def test_gpus_that_do_not_work_say_so_in_words_and_the_others_go_on() -> None:
    shown = gpu_texts(failing_state())
    assert "LOST" in shown[3] and "reboot the host" in shown[3]
    assert "HUNG" in shown[4] and "no answer from the driver for 42 s" in shown[4]
    assert "74.6/95.6 G" in shown[0] and "0/95.6" not in shown[6]
    assert shown[6].count("n/a") == 4
    assert "2 not working" in plain(panel_title(failing_state()))
    bare = replace(sample_state(), gpus=(Gpu(index=0, state="lost"), Gpu(index=1, state="error")))
    assert "fell off the bus" in gpu_texts(bare)[0] and "gives no reason" in gpu_texts(bare)[1]


def test_all_troubles_come_before_the_totals_in_the_small_form() -> None:
    cells, summary = small_lines(failing_state(), 80, LIMITS)
    assert width_of(cells) == 80 and "3 LOST" in plain(cells) and "4 HUNG" in plain(cells)
    assert plain(summary).lstrip().startswith("GPU 3 lost: GPU 3 fell off the bus")
    _, summary = small_lines(sample_state(), 80, LIMITS)
    assert "608/765 G" in plain(summary) and "hottest 5: 84°C" in plain(summary) and "3.2 kW" in plain(summary)


def test_the_owner_is_only_ever_a_process_that_proc_confirms() -> None:
    state = sample_state()
    gpu = state.gpus[0]
    assert owner(gpu, state) == ("sglang::scheduler_TP0", "")
    foreign = replace(gpu, processes=(GpuProcess(98402, 9 * GIB, None, "in another PID namespace"),))
    assert owner(foreign, state) == ("pid 98402, in another PID namespace", WARN)
    assert owner(replace(gpu, processes=()), state)[0] == "—" and owner(replace(gpu, processes=None), state)[1] == DIM


@pytest.mark.parametrize(
    ("driver", "count", "expected"),
    [
        (GpuDriver("absent", "No driver here."), 0, "No driver here."),
        (GpuDriver("absent"), 0, "No NVIDIA driver on this host"),
        (GpuDriver("mismatch"), 0, "different versions: reboot"),
        (GpuDriver("hung"), 8, "processes can still be controlled"),
        (GpuDriver("unknown"), 0, "not been read yet"),
        (GpuDriver("ok"), 0, "lists no GPU"),
    ],
)
def test_a_driver_that_is_not_well_is_explained(driver: GpuDriver, count: int, expected: str) -> None:
    said = driver_line(driver, count)
    assert said is not None and expected in plain(said)


def test_a_driver_that_is_well_says_nothing_and_simulated_ones_say_so() -> None:
    assert driver_line(GpuDriver("ok"), 8) is None
    simulated = replace(sample_state(), driver=GpuDriver("ok", simulated=True))
    assert "SIMULATED" in plain(panel_title(simulated)) and "SIMULATED" not in plain(panel_title(sample_state()))


@given(st.integers(30, 260))
def test_host_lines_fit_and_keep_what_matters_most(width: int) -> None:
    state = sample_state()
    link = chip(LinkStatus(UP, rtt_ms=12.0), 0.4, None, False)
    first = identity_line("gpu1", state, link, width, wall_s=WALL, alerts=3)
    second = gauges_line(state.gauges, width, LIMITS)
    assert width_of(first) == width and width_of(second) == width
    assert "gpu1" in plain(first) and "● 12 ms" in plain(first) and "mem 412/1024 G" in plain(second)


def test_the_host_lines_tell_everything_where_there_is_room() -> None:
    state = sample_state()
    first = plain(identity_line("prod", state, chip(LinkStatus(UP), 0.4, None, False), 160, wall_s=WALL, alerts=1))
    for part in (
        "prod  gpu1",
        "n/a data 0.4 s",
        "as root",
        "8 × RTX PRO 6000 Blackwell",
        "up 4d 15h",
        "1 alert",
        "22:41:07",
    ):
        assert part in first
    second = plain(gauges_line(sample_gauges(), 160, LIMITS))
    for part in ("load 21.4 20.9 18.2", "cpu 11% of 192", "/data 3.0 T free", "↓18.4 MB/s ↑2.1 MB/s"):
        assert part in second
    assert "swap" not in second


def test_missing_gauges_are_not_available_and_say_why() -> None:
    gauges = failing_state().gauges
    text = plain(gauges_line(gauges, 160, LIMITS))
    assert "cpu n/a of 192" in text and "mem n/a" in text and "net n/a" in text and "/data no such path" in text
    assert "memory: psutil is not installed on the host" in missing_text(gauges)
    assert plain(gauges_line(Gauges(), 80, LIMITS)).count("n/a") == 4 and missing_text(Gauges()) == ""


@pytest.mark.parametrize(
    ("status", "age", "left", "stale", "expected", "tone"),
    [
        (LinkStatus(UP, rtt_ms=12.4), 0.5, None, False, "● 12 ms data 0.5 s", GOOD),
        (LinkStatus(UP, rtt_ms=12.4), 7.2, None, True, "◐ 12 ms data 7 s old", WARN),
        (LinkStatus(UP), None, None, True, "◐ n/a no data yet", WARN),
        (
            LinkStatus(WAITING, "x", attempt=3, retry_in_s=5.0),
            9.0,
            4.2,
            True,
            "down, next try in 5 s after 3 tries",
            BAD,
        ),
        (LinkStatus(CONNECTING, attempt=1), None, None, True, "◌ connecting", WARN),
        (LinkStatus(CONNECTING, attempt=4), None, None, True, "◌ connecting (try 4)", WARN),
        (LinkStatus(REFUSED, "x"), None, None, True, "✕ refused", BAD),
        (LinkStatus(CLOSED), None, None, True, "✕ closed", BAD),
    ],
)
def test_the_chip_tells_how_the_link_is(
    status: LinkStatus, age: float | None, left: float | None, stale: bool, expected: str, tone: str
) -> None:
    pieces = chip(status, age, left, stale)
    assert expected in plain(pieces) and pieces[0][1] == tone


def snapshot(phase: str, text: str = "", age: float | None = 1.0, state: HostState | None = None) -> Snapshot:
    return Snapshot(state or sample_state(), LinkStatus(phase, text, attempt=1), age, WALL)


@pytest.mark.parametrize(
    ("now", "stale", "why", "banner"),
    [
        (snapshot(UP), False, "", ""),
        (snapshot(UP, age=3.0), False, "", ""),
        (snapshot(UP, age=3.1), True, "process list is 3 s old", "The data is 3 s old"),
        (
            snapshot(UP, state=HostState(), age=None),
            True,
            "before the first full process list",
            "waiting for the first",
        ),
        (
            snapshot(WAITING, "It broke.", age=70.0),
            True,
            "link is down: It broke.",
            "It broke. What is shown is 1m 10s old",
        ),
        (
            snapshot(REFUSED, "Wrong key", age=None, state=HostState()),
            True,
            "Wrong key.",
            "Wrong key. Press R to try now.",
        ),
        (
            snapshot(CONNECTING, "Connecting to gpu1", age=None, state=HostState()),
            True,
            "Connecting",
            "Connecting to gpu1 …",
        ),
    ],
)
def test_stale_data_is_told_and_stops_actions(now: Snapshot, stale: bool, why: str, banner: str) -> None:
    shown = " ".join(plain(line).strip() for line in banner_lines("gpu1", now, 200, "R"))
    assert now.stale is stale and bool(now.why_no_action) is stale
    assert why in now.why_no_action and banner in shown and bool(shown) is stale


def test_faults_last_alerts_newest_first_and_the_rest_is_counted() -> None:
    alerts = tuple(Alert("woke", f"process {n} woke", WALL + n) for n in range(5))
    state = replace(failing_state(), alerts=alerts)
    shown = alert_lines(state, open_alerts(state, WALL), 100, 3)
    assert "gauges disk figures stopped" in plain(shown[0])
    assert "22:41:11 process 4 woke" in plain(shown[1])
    assert "process 3 woke" in plain(shown[2]) and "and 2 more" in plain(shown[2])
    assert all(width_of(line) <= 100 for line in shown)
    assert alert_lines(sample_state(), (), 80, 3) == []


def row_of(state: HostState, pid: int, view: TreeView | None = None) -> TreeRow:
    return next(row for row in build_rows(state, view or TreeView()) if row.process.pid == pid)


@given(st.integers(40, 240), st.text(max_size=60), st.integers(0, 40))
def test_process_lines_fit_whatever_the_host_says(width: int, word: str, depth: int) -> None:
    chain = [process(1 + n, n, (word or "x",) * 5, state="T", user=word[:12]) for n in range(depth + 1)]
    state = with_processes(sample_state(), *chain)
    columns = process_columns(width)
    for row in build_rows(state, TreeView()):
        line = process_line(row, state, columns, width, found=word[:3])
        assert width_of(line) <= width
        assert all(char.isprintable() for text, _ in line for char in text)
    assert width_of(ghost_line(chain[0], columns, width)) <= width


def test_a_process_line_has_its_figures_in_columns() -> None:
    state = sample_state()
    columns = process_columns(120)
    heading = plain(heading_line(columns, "cpu"))
    shown = plain(process_line(row_of(state, 98402), state, columns, 120))
    assert heading.split() == ["PID", "USER", "STATE", "GPU", "MEM", "CPU▼", "RSS", "AGE", "COMMAND"]
    assert shown.split()[:10] == ["98402", "root", "sleep", "74.2", "G", "98%", "5.0", "G", "1d", "01h"]
    assert shown.endswith("├─ sglang::scheduler_TP0") and heading.index("CPU▼") + 4 == shown.index("98%") + 3


def test_a_folded_line_shows_marked_sums() -> None:
    state = sample_state()
    view = TreeView(folded=frozenset({identity_of(state, SERVER_PID)}))
    wide = plain(process_line(row_of(state, SERVER_PID, view), state, process_columns(120), 120))
    narrow = plain(process_line(row_of(state, SERVER_PID, view), state, process_columns(78), 78))
    assert "Σ 10 processes" in wide and "594 G" in wide and "776%" in wide
    assert "Σ10" in narrow and "594 G" in narrow


def test_a_cpu_that_is_not_measured_yet_is_no_zero() -> None:
    state = changed(sample_state(), CLIENT_PID, cpu_percent=None)
    line = process_line(row_of(state, CLIENT_PID), state, process_columns(120), 120)
    assert "0%" not in plain(line) and plain(line).split()[3:5] == ["—", "—"]


def test_a_pause_tells_how_long_and_by_whom() -> None:
    state = sample_state()
    paused = state.processes[PAUSED_PID]
    assert pause_text(paused, state, wide=True) == "⏸ 4m 05s by ops@laptop"
    assert pause_text(paused, state, wide=False) == "⏸4m"
    stranger = replace(state, pauses={PAUSED_PID: Pause(PAUSED_PID, paused.start_ticks, WALL - 60)})
    assert pause_text(paused, stranger, wide=True) == "⏸ 1m 00s, not by a console"
    reborn = replace(state, pauses={PAUSED_PID: Pause(PAUSED_PID, 1, WALL - 60, by="x")})
    assert pause_text(paused, reborn, wide=True) == "⏸"
    line = process_line(row_of(state, PAUSED_PID), state, process_columns(120), 120)
    assert tone_of(line, "paused") == "paused" and "by ops@laptop" in plain(line)


def test_what_was_searched_for_is_marked() -> None:
    state = sample_state()
    line = process_line(row_of(state, CLIENT_PID), state, process_columns(160), 160, found="RUN_inf")
    assert tone_of(line, "run_inf") == "found" and "run_inference.py" in plain(line)


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (("python", "-m", "sglang.launch_server", "--tp", "8"), "sglang.launch_server"),
        (("/opt/py/bin/python3.11", "-u", "-W", "ignore", "/srv/run_inference.py", "--x"), "run_inference.py"),
        (("python3", "-c", "import x"), "python3"),
        (("python3",), "python3"),
        (("bash", "/tmp/job.sh"), "job.sh"),
        (("sglang::scheduler_TP0",), "sglang::scheduler_TP0"),
        (("/usr/sbin/sshd", "-D"), "sshd"),
        (("sshd: root@notty",), "sshd:"),
        (("python3", "-m"), "python3"),
        (("a\nb",), "a⏎b"),
    ],
)
def test_the_name_of_a_process_is_what_an_operator_calls_it(argv: tuple[str, ...], name: str) -> None:
    assert process_name(process(5, 1, argv)) == name


def test_a_process_without_arguments_is_named_by_its_comm() -> None:
    assert process_name(process(5, 1, (), comm="kworker/0:1")) == "[kworker/0:1]"


def test_actions_under_way_are_followed_until_they_end() -> None:
    running = RunningActions()
    for event in (
        {"ev": "action", "action_id": "a", "op": "stop", "done": False},
        {"ev": "action", "action_id": "b", "op": "kill", "done": False},
        {"ev": "procs"},
        {"ev": "action", "action_id": "a", "op": "stop", "done": True},
    ):
        running.take(event)
    assert running.names == {"b": "kill"}
    running.take({"ev": "hello"})
    assert running.names == {}
