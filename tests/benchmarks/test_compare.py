from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from weft.benchmarks.__main__ import main
from weft.benchmarks.report import Unreadable, change, compare, missing, read
from weft.benchmarks.timing import spread


def _row(name: str = "r", **relative: list[float]) -> dict[str, Any]:
    return {"name": name, "threads": 1, "right": True, "relative": relative}


def test_noise_decides() -> None:
    old = _row(a=[1.0, 0.01], probe=[10.0, 0.01])
    assert change(old, _row(a=[1.10, 0.01], probe=[11.0, 0.01])).regressed
    assert not change(old, _row(a=[1.10, 0.2], probe=[11.0, 0.2])).regressed
    assert not change(old, _row(a=[1.04, 0.01], probe=[10.4, 0.01])).regressed  # intervals meet
    assert not change(old, old).regressed and not change(old, old).improved
    assert change(old, _row(a=[0.8, 0.01], probe=[8.0, 0.01])).improved


def test_a_slower_machine_is_no_regression_and_a_slower_peer_no_gain() -> None:
    """Everybody takes twice as long: ratios stay. One peer of three does: the others decide."""
    old = _row(a=[1.0, 0.0], b=[2.0, 0.0], probe=[10.0, 0.0])
    assert change(old, old).slower == 1.0
    found = change(old, _row(a=[0.5, 0.0], b=[2.0, 0.0], probe=[10.0, 0.0]))
    assert not found.improved and not found.regressed


def test_only_who_took_part_in_both_runs_counts() -> None:
    found = change(_row(a=[1.0, 0.0], b=[1.0, 0.0]), _row(a=[2.0, 0.0], c=[9.0, 0.0]))
    assert found.slower == 2.0
    nothing = change(_row(a=[1.0, 0.0]), _row(b=[9.0, 0.0]))
    assert nothing.noise == math.inf and not nothing.regressed


def test_an_answer_that_is_no_longer_right_is_a_regression() -> None:
    assert change(_row(a=[1.0, 0.0]), _row(a=[1.0, 0.0]) | {"right": False}).regressed


def test_rows_are_matched_by_name_and_threads() -> None:
    old = [_row("a", p=[1.0, 0.0]), _row("b", p=[1.0, 0.0]), _row("c") | {"right": False}]
    new = [_row("b", p=[3.0, 0.0]), _row("a", p=[3.0, 0.0]) | {"threads": 2}, _row("c"), _row("d")]
    assert [(c.name, c.slower) for c in compare(old, new)] == [("b", 3.0)]
    assert missing(old, new) == ["a"]


@pytest.mark.parametrize("seed", range(20))
def test_repeated_runs_of_the_same_code_pass(seed: int) -> None:
    """With noise of a tenth on every sample, twenty rounds; a quarter slower is found."""
    source = random.Random(seed)

    def measured(true: float) -> dict[str, Any]:
        samples = [true * source.gauss(1.0, 0.1) for _ in range(20)]
        samples.sort()
        return _row(p=[samples[10], spread(samples)])

    assert not change(measured(1.0), measured(1.0)).regressed
    assert change(measured(1.0), measured(1.35)).regressed


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", "[{}]", '[{"name": 3}]', '[{"name": "a", "right": true, "threads": 1}]',
     '[{"name": "a", "right": true, "threads": 1, "relative": {"p": [1]}}]',
     '[{"name": "a", "right": true, "threads": 1, "relative": {"p": [NaN, 1]}}]'],
)  # fmt: skip
def test_what_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(Unreadable):
        read(path)


def test_the_command_fails_on_a_regression_alone(tmp_path: Path) -> None:
    old, same, slow = (tmp_path / f"{name}.json" for name in ("old", "same", "slow"))
    old.write_text(json.dumps([_row("fast", p=[1.0, 0.01]), _row("gone", p=[1.0, 0.01])]))
    same.write_text(json.dumps([_row("fast", p=[1.01, 0.01])]))
    slow.write_text(json.dumps([_row("fast", p=[1.5, 0.01])]))
    good = CliRunner().invoke(main, ["compare", str(old), str(same)])
    assert good.exit_code == 0 and "not in the new run: gone" in good.output
    bad = CliRunner().invoke(main, ["compare", str(old), str(slow)])
    assert bad.exit_code == 1 and "REGRESSED fast: 1.500" in bad.output
    slow.write_text("[]]")
    broken = CliRunner().invoke(main, ["compare", str(old), str(slow)])
    assert broken.exit_code == 2 and "slow.json" in broken.output
