"""The waits between attempts to connect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.host.backoff import Backoff


def test_the_ceiling_doubles_from_half_a_second_to_thirty() -> None:
    backoff = Backoff()
    assert [backoff.ceiling_s(n) for n in range(1, 9)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


@given(failures=st.integers(min_value=0, max_value=10**9), chance=st.floats(min_value=0.0, max_value=1.0))
def test_every_wait_is_a_part_of_its_ceiling(failures: int, chance: float) -> None:
    backoff = Backoff()
    assert 0.0 <= backoff.delay_s(failures, chance) <= backoff.ceiling_s(failures) <= 30.0
    assert backoff.delay_s(failures, 1.0) == backoff.ceiling_s(failures)


def test_a_link_that_was_up_for_long_starts_from_the_beginning() -> None:
    backoff = Backoff()
    assert backoff.failures_after(7, up_s=29.9) == 8
    assert backoff.failures_after(7, up_s=30.0) == 1
