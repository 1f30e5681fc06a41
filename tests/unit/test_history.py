"""The last minute of every GPU."""

from __future__ import annotations

from console.host.history import SAMPLES, UtilisationHistory
from console.host.state import Gpu


def gpu(index: int, t: float, busy: int | None) -> Gpu:
    return Gpu(index=index, sampled_t=t, utilisation_percent=busy)


def test_the_last_sixty_samples_are_kept_in_order() -> None:
    history = UtilisationHistory()
    for t in range(SAMPLES + 5):
        history.add([gpu(0, float(t), t)])
    assert history.of(gpu(0, 0.0, 0)) == tuple(range(5, SAMPLES + 5))
    assert history.count(gpu(0, 0.0, 0)) == SAMPLES + 5


def test_the_same_sample_counts_once_and_an_unknown_one_is_a_gap() -> None:
    history = UtilisationHistory()
    for one in (gpu(0, 1.0, 10), gpu(0, 1.0, 10), gpu(0, 2.0, None)):
        history.add([one])
    assert history.of(gpu(0, 0.0, 0)) == (10, None)


def test_a_gpu_that_is_gone_is_forgotten_and_the_others_are_not() -> None:
    history = UtilisationHistory()
    history.add([gpu(0, 1.0, 10), gpu(1, 1.0, 20)])
    history.add([gpu(1, 2.0, 21)])
    history.add([gpu(0, 3.0, 30), gpu(1, 3.0, 22)])
    assert history.of(gpu(0, 0.0, 0)) == (30,) and history.of(gpu(1, 0.0, 0)) == (20, 21, 22)
    assert history.of(gpu(9, 0.0, 0)) == () and history.count(gpu(9, 0.0, 0)) == 0
