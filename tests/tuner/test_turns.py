from __future__ import annotations

import time
from threading import Thread

from weft.tuner.turns import interleaved_loops


def test_loops_take_turns_forwards_and_backwards() -> None:
    log: list[tuple[str, int]] = []
    loops = {name: lambda times, n=name: log.append((n, times)) for name in "ab"}  # type: ignore[misc]
    samples = interleaved_loops(loops, seconds=10.0, rounds=4)
    turns = [name for name, times in log if times > 1]
    assert turns == list("abbaabba")
    assert [len(found) for found in samples.values()] == [4, 4]


def test_a_loop_that_takes_longer_than_its_time_has_one_round() -> None:
    calls: list[int] = []

    def slow(times: int) -> None:
        calls.append(times)
        time.sleep(0.02 * times)

    samples = interleaved_loops({"slow": slow}, seconds=0.001)
    assert calls == [1, 1, 1] and samples["slow"][0] >= 20


def test_a_turn_begins_when_others_threads_have_gone_to_sleep() -> None:
    spinning: list[bool] = []
    met: list[bool] = []

    def spin() -> None:
        end = time.perf_counter() + 0.02
        while time.perf_counter() < end:
            pass
        spinning.clear()

    def leaves_a_thread(times: int) -> None:
        if not spinning:
            spinning.append(True)
            Thread(target=spin).start()

    loops = {"spins": leaves_a_thread, "next": lambda times: met.append(bool(spinning))}
    interleaved_loops(loops, seconds=1.0, rounds=3, park=True)
    calls_to_size_a_turn = 2
    assert len(met) > 2 * 3 and not any(met[calls_to_size_a_turn:])
