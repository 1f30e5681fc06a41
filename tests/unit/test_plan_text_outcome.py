"""An outcome in words: what was sent, what was verified, and never more certain than what is known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.host import lines, outcome_text
from console.host.actions import Outcome, PlannedProcess, TargetOutcome
from console.host.figures import age_text, size_text, took_text

GIB = 1 << 30


def target(pid: int = 121338, **changes: Any) -> TargetOutcome:
    values: dict[str, Any] = {
        "pid": pid,
        "start_ticks": 5,
        "argv": ("python3", "run.py"),
        "sent": "SIGSTOP",
        "state_before": "S",
        "state_after": "T",
        "verified": True,
        "ms": 8.0,
    }
    return TargetOutcome(**{**values, **changes})


def left(pid: int) -> PlannedProcess:
    return PlannedProcess(
        pid, 5, "boot", 1, 0, "root", ("python3", "left.py"), "python3", "d", "D", 60.0, GIB, 11 * GIB, ""
    )


def outcome(op: str = "pause", *targets: TargetOutcome, **changes: Any) -> Outcome:
    values: dict[str, Any] = {
        "ok": True,
        "done": True,
        "phase": "done",
        "targets": targets or (target(),),
        "grace_s": 45.0,
    }
    return Outcome("ab12", op, **{**values, **changes})


def text_of(made: Outcome, width: int = 100) -> str:
    return "\n".join(outcome_text.outcome_lines(made, width))


def test_a_pause_tells_signal_states_and_time() -> None:
    shown = text_of(outcome(elapsed_s=0.012))
    assert "Paused: 1 process verified stopped (T) in 12 ms." in shown
    assert " ".join(shown.splitlines()[1].split()) == "121338 ✓ sent SIGSTOP S → T 8 ms python3 run.py"


def test_a_stop_tells_memory_and_that_nothing_is_left() -> None:
    made = outcome("stop", target(state_after="gone"), gpu_bytes_before=593 * GIB, gpu_bytes_after=0, elapsed_s=12.0)
    shown = text_of(made)
    assert "Exited: 1 process verified gone in 12.0 s." in shown
    assert "GPU memory of the set: 593 G → 0 B" in shown
    assert "Nothing is left of the set." in shown


def test_memory_that_the_driver_does_not_tell_is_not_zero() -> None:
    assert "GPU memory of the set: n/a" in text_of(outcome("kill"))
    assert "GPU memory of the set: 22.0 G → n/a" in text_of(outcome("kill", gpu_bytes_before=22 * GIB))


def test_what_is_left_and_what_holds_the_gpu_are_listed() -> None:
    shown = text_of(
        outcome(
            "kill",
            target(state_after="D", verified=False, reason="in D state: needs host action"),
            ok=False,
            left=(left(121341),),
            gpu_bytes_before=GIB,
            gpu_bytes_after=GIB,
            gpu_holders=("121341 python3 holds 11 G on GPU 5",),
        )
    )
    assert "Not all ended: 0 of 1 process verified." in shown
    assert "↳ in D state: needs host action" in shown
    assert "still holds GPU memory: 121341 python3 holds 11 G on GPU 5" in shown
    assert "Left alive: 1 process" in shown
    assert "Nothing is left" not in shown


def test_a_refusal_says_which_field_and_that_nothing_was_sent() -> None:
    made = outcome(
        ok=False, phase="refused", refusal="argv of 121338 differs", targets=(target(sent=None, verified=False),)
    )
    shown = text_of(made)
    assert shown.startswith("Refused: argv of 121338 differs. Nothing was sent.")


def test_a_refusal_after_a_signal_does_not_claim_that_nothing_was_sent() -> None:
    shown = text_of(outcome(ok=False, phase="refused", refusal="121340 has changed", targets=(target(),)))
    assert "Nothing was sent" not in shown


def test_an_unknown_fate_tells_to_look_first() -> None:
    shown = text_of(outcome("kill", ok=False, phase="unknown"))
    assert "recorded the intent and no result: look at the processes before you repeat it" in shown
    assert "Nothing is left" not in shown


def test_the_countdown_stands_at_the_grace() -> None:
    waiting = outcome("stop", target(verified=False), ok=False, done=False, phase="waiting", elapsed_s=3.0)
    assert outcome_text.headline(waiting, 12.4)[0] == "Waiting for exit: 12 s of 45, 0 of 1 gone"
    assert outcome_text.headline(waiting, 99.0)[0].startswith("Waiting for exit: 45 s of 45")


def test_a_missing_audit_record_is_told_in_the_warning_tone() -> None:
    shown = outcome_text.aftermath_lines(outcome(audit="No space left on device"), 100)
    assert shown[0] == (("⚠ The host's audit file has no record of this: No space left on device.", lines.WARN),)


def test_failures_come_first_once_it_is_over_and_not_before() -> None:
    bad = target(2, verified=False, reason="EPERM")
    running = outcome("pause", target(1), bad, done=False, ok=False, phase="sent")
    over = outcome("pause", target(1), bad, ok=False)
    assert [lines.plain(each).split()[0] for each in outcome_text.target_lines(running, 80)][:2] == ["1", "2"]
    assert lines.plain(outcome_text.target_lines(over, 80)[0]).split()[0] == "2"


def test_several_signals_and_a_zombie_are_told() -> None:
    zombie = target(sent="SIGSTOP+SIGKILL", state_after="Z", reason="waits for its parent to collect it")
    shown = [" ".join(each.split()) for each in outcome_text.outcome_lines(outcome("kill", zombie), 100)]
    assert shown[1] == "121338 ✓ sent STOP+KILL S → Z 8 ms python3 run.py"
    assert shown[2] == "↳ waits for its parent to collect it"


def test_a_kill_has_no_countdown() -> None:
    waiting = outcome("kill", target(verified=False), ok=False, done=False, phase="waiting")
    assert not outcome_text.counts_down(waiting)
    assert outcome_text.headline(waiting, 3.0)[0] == "Sent; verifying: 0 of 1"


def test_a_newborn_is_marked() -> None:
    assert "born after the plan was read" in text_of(outcome("pause", target(added=True)))


@given(
    st.lists(st.text(max_size=60), max_size=3),
    st.text(max_size=60),
    st.sampled_from(["checking", "sent", "waiting", "done", "refused", "unknown"]),
    st.integers(60, 200),
)
def test_no_line_is_wider_than_asked_nor_unprintable(argv: list[str], reason: str, phase: str, width: int) -> None:
    made = outcome(
        "kill",
        target(argv=tuple(argv), reason=reason, verified=False),
        ok=False,
        done=phase in ("done", "refused", "unknown"),
        phase=phase,
        refusal=reason if phase == "refused" else "",
        note=reason,
        left=(left(3),),
        gpu_holders=(reason,),
    )
    for each in outcome_text.outcome_lines(made, width):
        assert lines.cells(each) <= width
        assert each.isprintable()


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "—"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 K"),
        (1_288_490_188, "1.2 G"),
        (593 * GIB, "593 G"),
        (1 << 62, "4096 P"),
    ],
)
def test_sizes(size: int | None, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (None, "—"),
        (0.9, "0s"),
        (59, "59s"),
        (725, "12m 05s"),
        (11_520, "3h 12m"),
        (93_600, "1d 02h"),
        (float("nan"), "—"),
    ],
)
def test_ages(age: float | None, text: str) -> None:
    assert age_text(age) == text


@pytest.mark.parametrize(("ms", "text"), [(8.2, "8 ms"), (999.6, "1.0 s"), (45_200, "45.2 s"), (125_000, "2m 05s")])
def test_times(ms: float, text: str) -> None:
    assert took_text(ms) == text
