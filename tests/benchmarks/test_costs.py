"""Random schedules are legal, and what a row says of them is so."""

from __future__ import annotations

import numpy as np
import pytest

from weft.benchmarks import costs


def test_ranks() -> None:
    assert costs.spearman([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert costs.spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    # By hand: ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3; 4.5 / sqrt(4.5 * 5).
    assert costs.spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9487, abs=1e-4)
    assert costs.spearman([1], [2]) == costs.spearman([1, 1], [1, 2]) == 1


def test_there_are_enough_programs() -> None:
    assert len(costs.subjects()) >= 40
    assert set(costs.subjects(quick=True)) == set(costs.QUICK)


@pytest.mark.long
@pytest.mark.parametrize("name", ["gesummv", "product 64", "lcs"])
def test_candidates_compute_the_same(name: str) -> None:
    subject = costs.subjects()[name]()
    made = costs.candidates(subject.schedule, 5)
    assert len({str(s) for s in made}) == len(made) > 2
    assert [str(s) for s in made] == [str(s) for s in costs.candidates(subject.schedule, 5)]
    results = []
    for schedule in made:
        given = {
            n: np.copy(a) if isinstance(a, np.ndarray) else a for n, a in subject.inputs.items()
        }
        found = schedule.compile(costs.OPTIONS)(*given.values())
        every = found if isinstance(found, tuple) else (found,)
        results.append([np.asarray(x) for x in (*every, *given.values()) if x is not None])
    for other in results[1:]:
        for one, same in zip(results[0], other, strict=True):
            assert np.allclose(one, same, rtol=1e-4)


def test_a_row() -> None:
    row, last = costs.run(1, True, ["sums"])
    assert row["name"] == "sums" and row["count"] == 5 and last["count"] == 5
    assert -1 <= row["spearman"] <= 1 and row["regret"] >= 1
    assert row["violated"] == 0 and row["right"] and last["right"]
