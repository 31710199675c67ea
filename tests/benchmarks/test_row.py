"""Rows say what happened, beside peers that are made up here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import pytest

from weft.benchmarks.case import WRONG, Case, error_of, one_node, outputs_of
from weft.benchmarks.limits import Limits, Probe
from weft.benchmarks.peers.peer import Prepared, Unfit
from weft.benchmarks.row import Bench, settle


@dataclass(frozen=True)
class Peer:
    name: str
    answer: Callable[[Case], np.ndarray]

    def prepare(self, case: Case, threads: int) -> Prepared:
        found = self.answer(case)
        return Prepared(lambda: None, lambda: [found])


def _refuse(case: Case) -> np.ndarray:
    raise Unfit("of age")


def _double(size: int = 7) -> Case:
    x = np.arange(size, dtype=np.float32)
    model, inputs = one_node("Add", [("a", x), ("b", x)], ((size,), np.float32), constants=["b"])
    return Case("double", "sums", model, inputs, lambda: [2.0 * x], 1e-6, size, "float32")


def _bench(*peers: Peer) -> Bench:
    return Bench(1, 0.01, peers, Limits(1))


RIGHT = Peer("right", lambda case: np.asarray(case.expected()[0]))
LIAR = Peer("wrong", lambda case: case.expected()[0] + 1e-3)
SHORT = Peer("short", lambda case: case.expected()[0][1:])
NAN = Peer("nan", lambda case: case.expected()[0] * np.nan)
ABSENT = Peer("absent", _refuse)


def test_only_right_peers_take_part() -> None:
    row = _bench(RIGHT, LIAR, SHORT, NAN, ABSENT).row(_double())
    assert row["right"] and row["max_error"] == 0.0 and not row["failure"]
    assert set(row["peers"]) == {"right"} == {row["best_peer"]}
    assert set(row["absent"]) == {"wrong", "short", "nan", "absent"}
    assert row["absent"]["absent"] == "of age"
    assert row["best_peer_ratio"] == pytest.approx(row["peers"]["right"] / row["weft_ms"])
    assert set(row["relative"]) == {"right", "float32 peak"}
    assert 0 < row["peak_fraction"] < 1


def test_a_wrong_answer_is_no_success() -> None:
    case = replace(_double(), expected=lambda: [np.zeros(7)])
    row = _bench(RIGHT).row(case)
    assert not row["right"] and row["max_error"] == 12.0 and row["weft_ms"] > 0


def test_what_weft_refuses_is_a_row() -> None:
    case = _double()
    case.model.graph.node[0].op_type = "Nonsense"
    row = _bench(RIGHT).row(case)
    assert row["failure"].startswith("WEFT-E") and not row["right"]
    assert (
        row["weft_ms"] is row["best_peer_ratio"] is row["peak_fraction"] is row["max_error"] is None
    )
    assert row["peers"]["right"] > 0


@pytest.mark.parametrize(("setting", "saving"), [("on", 9.0), ("off", 1.0)])
def test_nothing_is_saved_where_that_is_off(
    monkeypatch: pytest.MonkeyPatch, setting: str, saving: float
) -> None:
    monkeypatch.setenv("WEFT_WINOGRAD", setting)
    assert _bench().row(replace(_double(), saving=9.0))["saving"] == saving


def test_a_bug_costs_its_own_row_alone() -> None:
    def broken(program: object, inputs: object) -> NoReturn:
        raise RecursionError("too deep")

    row = _bench(RIGHT).row(_double(), broken)
    assert row["failure"] == "RecursionError: too deep" and row["peers"]["right"] > 0


@pytest.mark.parametrize("answer", [[np.nan], [np.inf], [1.0, 2.0]])
def test_no_number_is_as_wrong_as_can_be(answer: list[float]) -> None:
    error = error_of(np.array(answer), np.array([1.0]))
    assert error == WRONG and json.loads(json.dumps(error, allow_nan=False)) == WRONG


def test_an_empty_call_is_subtracted_up_to_nine_tenths() -> None:
    now = [0.0]
    prepared: list[tuple[str, int]] = []

    @dataclass(frozen=True)
    class Slow:
        """Takes 5 seconds, and some for each element but the first, by a clock of its own."""

        name: str
        each: float

        def prepare(self, case: Case, threads: int) -> Prepared:
            size, expected = len(case.inputs["a"]), case.expected()
            prepared.append((self.name, size))

            def call() -> None:
                now[0] += 5.0 + self.each * (size - 1)

            return Prepared(call, lambda: expected)

    peers = [Slow("slow", 2.0), Slow("quick", 0.01)]

    def clock() -> float:
        now[0] += 1e-6
        return now[0]

    bench = Bench(1, 0.01, peers, Limits(1), clock)
    case = replace(_double(), empty=lambda: _double(1), limit="")
    rows = [bench.row(case), bench.row(case)]
    assert prepared.count(("slow", 1)) == 1  # measured once for the group
    for row in rows:
        assert row["overhead_ms"] == pytest.approx({"slow": 5000.0, "quick": 5000.0}, rel=1e-4)
        assert row["peers"] == pytest.approx({"slow": 12_000.0, "quick": 506.0}, rel=1e-4)
        assert row["best_peer"] == "quick"


def test_bytes_count_each_array_once() -> None:
    case = _double(10)
    assert outputs_of(case.model) == [((10,), np.dtype(np.float32))]
    assert case.bytes == 3 * 40


def test_copying_counts_as_it_was_in_the_rows_own_turns() -> None:
    now = [0.0]

    def spend(seconds: float) -> None:
        now[0] += seconds

    def clock() -> float:
        now[0] += 1e-6
        return now[0]

    class OneProbe(Limits):
        """Copies 6 bytes: in 0.5 seconds before the row, in 2 during its turns."""

        def of(self, limit: str, size: int = 0) -> dict[str, Probe]:
            return {"plain copy": probe} if limit else {}

    probe = Probe(6.0, lambda: spend(2.0))
    probe.note([500.0])
    row = Bench(1, 10.0, (), OneProbe(1), clock).row(replace(_double(), limit="copy"))
    assert row["limit_per_s"] == pytest.approx(3.0, rel=1e-4) and probe.best == 12.0
    assert row["turn_fraction"] == pytest.approx(
        row["bytes"] / row["weft_ms"] * 1e3 / 3.0, rel=1e-2
    )
    both = Bench(2, 10.0, (), OneProbe(2), clock).row(replace(_double(), limit="copy"))
    assert both["turn_fraction"] is None and both["peak_fraction"]


def test_rows_are_settled_by_the_best_rate_of_the_run() -> None:
    row = {"limit": "float32", "operations": 5e6, "bytes": 3e6, "weft_ms": 2.0}
    row["peers"] = {"a": 3.0, "b": 1.0}
    settle(row, 5e9)
    assert row["peak_fraction"] == 0.5 and row["best_peer"] == "b" and row["best_peer_ratio"] == 0.5
    row["limit"] = "copy"
    settle(row, 3e9)
    assert row["peak_fraction"] == 0.5
