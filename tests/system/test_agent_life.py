"""When and how the agent ends, and what must never hold it up."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.agent import main as agent_main
from console.agent import procfs, protocol
from tests.nvml.build import Scenario, build_standin, standin_env
from tests.system.raw_agent import RawAgent
from tests.system.specimens import Specimens, wait_for

pytestmark = pytest.mark.usefixtures("client_home")

KNOWN_SECRET = {
    "console.agent.main": Path(agent_main.__file__).read_text() + "\nos.urandom = lambda count: bytes(count)\n"
}
"""Two agents with one key for their digests, so that the plan of one is good for the other."""

STUBBORN = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"


@pytest.fixture
def specimens(tmp_path: Path) -> Iterator[Specimens]:
    made = Specimens(tmp_path)
    yield made
    made.end()


@pytest.fixture
def start_agent() -> Iterator[Callable[..., RawAgent]]:
    agents: list[RawAgent] = []

    def start(*python: str, **options: Any) -> RawAgent:
        agents.append(RawAgent(*python, **options))
        return agents[-1]

    yield start
    for agent in agents:
        agent.close()


def audit_records(home: Path) -> list[dict[str, Any]]:
    path = home / ".local/state/eagle3-console/audit.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def state_of(pid: int) -> str:
    stat = procfs.read_stat(pid)
    return stat.state if stat is not None else "gone"


def test_it_ends_with_its_input(start_agent: Callable[..., RawAgent]) -> None:
    agent = start_agent()
    agent.start()
    agent.event(protocol.PROCS)
    assert agent.end_input() == 0
    assert agent.last_words() == ""


def test_it_ends_before_the_first_request_and_in_the_middle_of_a_line(start_agent: Callable[..., RawAgent]) -> None:
    first, second = start_agent(), start_agent()
    first.event(protocol.HELLO)
    assert first.end_input() == 0
    second.event(protocol.HELLO)
    second.write(b'{"id": 1, "op": "sta')
    assert second.end_input() == 0
    assert second.last_words() == ""


def test_hang_ups_and_ctrl_c_do_not_end_it(start_agent: Callable[..., RawAgent]) -> None:
    agent = start_agent()
    agent.start()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        os.kill(agent.pid, number)
        assert agent.ask(protocol.PING) == {}
    agent.event(protocol.PROCS)
    assert agent.end_input() == 0


def test_rubbish_is_answered_and_the_conversation_goes_on(start_agent: Callable[..., RawAgent]) -> None:
    agent = start_agent()
    agent.start()
    for rubbish in (b"\n", b"\xff\xfe\n", b"[1]\n", b'{"a":' * 5000 + b"\n", b"null\n"):
        agent.write(rubbish)
        assert "JSON" in (text := agent.event(protocol.FAULT)["text"]) or "object" in text
    requests: list[tuple[str, dict[str, Any]]] = [
        ("invent", {}),
        ("plan", {}),
        ("plan", {"action": "maim", "scope": "tree", "roots": []}),
        ("plan", {"action": "kill", "scope": "tree", "roots": [agent.pid]}),
        ("signal", {"action_id": "x"}),
        ("signal", {"action_id": "x", "action": "stop", "scope": "tree", "roots": [], "targets": [], "grace_s": "nan"}),
        ("signal", {"action_id": "x", "action": "stop", "scope": "tree", "roots": [], "targets": [], "grace_s": 1e9}),
        ("detail", {"process": 1}),
        ("fate", {}),
        ("audit", {"limit": "many"}),
        ("start", {}),
    ]
    for op, arguments in requests:
        error = agent.answer(agent.send(op, **arguments))["error"]
        assert error["kind"] == protocol.BAD_REQUEST, error
        assert "Traceback" not in error["text"]
    gone = agent.answer(agent.send("detail", process=[procfs.boot_id(), 2**22 + 7, 5]))["error"]
    assert gone["kind"] == protocol.NOT_FOUND
    assert agent.ask(protocol.PING) == {}


def test_a_waiting_stop_leaves_its_result_before_the_end(
    start_agent: Callable[..., RawAgent], specimens: Specimens, client_home: Path
) -> None:
    process = specimens.start([sys.executable, "-c", STUBBORN])
    assert process.stdout and process.stdout.readline()
    agent = start_agent()
    agent.start()
    agent.send_signal(agent.plan(protocol.STOP, process.pid))
    agent.until(lambda message: message.get("ev") == protocol.ACTION and message["phase"] == "waiting", "the wait")
    assert [record["record"] for record in audit_records(client_home)] == ["intent"]
    assert agent.end_input() == 0
    intent, result = audit_records(client_home)
    assert (intent["record"], result["record"], result["done"], result["ok"]) == ("intent", "result", True, False)
    assert result["targets"][0]["reason"] == "still alive when the console went away"
    assert result["targets"][0]["sent"] == "SIGTERM"
    assert intent["operator"] == result["operator"] == "tester@desk"
    assert process.poll() is None


def test_a_console_that_does_not_read_holds_up_no_signal(
    start_agent: Callable[..., RawAgent], specimens: Specimens, client_home: Path
) -> None:
    victim = specimens.sleeper()
    planner = start_agent(extra_modules=KNOWN_SECRET)
    planner.start()
    plan = planner.plan(protocol.KILL, victim.pid)
    assert planner.end_input() == 0

    mute = start_agent(extra_modules=KNOWN_SECRET, reading=False)
    mute.send(protocol.START, interval_s=0.2, operator="tester@desk")
    # Enough answers to fill every buffer on the way; after them nothing more gets out.
    for _ in range(3000):
        mute.send(protocol.PING, words="x" * 30)
    mute.send_signal(plan, action_id="killed")
    wait_for(lambda: state_of(victim.pid) in ("Z", "gone"), "the kill is carried out")
    wait_for(lambda: "result" in {record["record"] for record in audit_records(client_home)}, "its result is on disk")
    since = time.monotonic()
    wait_for(lambda: time.monotonic() > since + 2.0, "ten samples could have been taken")
    # What it had to say is still there once somebody reads, in order, and then comes fresh data.
    mute.resume_reading()
    outcome = mute.until(lambda message: message.get("ok", {}).get("action_id") == "killed", "the outcome")["ok"]
    assert outcome["ok"]
    assert [message["seq"] for message in mute.seen] == list(range(1, len(mute.seen) + 1))
    assert sum(message.get("ok") == {} for message in mute.seen) >= 3000
    mute.until(lambda message: message.get("ev") == protocol.PROCS and message["t"] > since + 2.0, "fresh data")
    times = [message["t"] for message in mute.seen if message.get("ev") == protocol.PROCS]
    assert not [t for t in times if since < t < since + 2.0], "what nobody reads is not sampled"
    assert mute.end_input() == 0


def test_a_driver_that_hangs_holds_up_neither_processes_nor_a_signal(
    start_agent: Callable[..., RawAgent], specimens: Specimens, tmp_path: Path
) -> None:
    scenario = Scenario(tmp_path / "scenario", "count 1", "init hang")
    agent = start_agent(env=standin_env(build_standin(tmp_path / "nvml"), scenario.path))
    agent.start()
    agent.event(protocol.PROCS)
    victim = specimens.sleeper()
    agent.until(lambda m: any(row["pid"] == victim.pid for row in m.get("added", ())), "the newcomer is listed")
    outcome = agent.answer(agent.send_signal(agent.plan(protocol.KILL, victim.pid)))["ok"]
    assert outcome["ok"] and outcome["targets"][0]["verified"]
    assert outcome["gpu_bytes_before"] is None, "not known is not nothing"
    hung = agent.until(lambda m: m.get("ev") == protocol.GPUS and m["driver"]["state"] == "hung", "the panel says so")
    assert hung["gpus"] == []
    assert agent.end_input() == 0
