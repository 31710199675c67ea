from __future__ import annotations

from typing import Any

import pytest

from weft.benchmarks import report


def _row(name: str, **changes: Any) -> dict[str, Any]:
    row = {
        "name": name, "group": "g", "weft_ms": 1.0, "peers": {"p": 1.1},
        "overhead_ms": {"p": 0.002},
        "best_peer": "p", "best_peer_ratio": 1.1, "peak_fraction": 0.5, "turn_fraction": 0.625,
        "limit": "float32",
        "max_error": 0.0, "right": True, "failure": "", "absent": {}, "facts": {},
        "saving": 1.0, "own": "",
    }  # fmt: skip
    return row | changes


def test_failures_are_wrong_answers_refusals_and_the_impossible() -> None:
    rows = [
        _row("good"),
        _row("wrong", right=False, max_error=0.5),
        _row("refused", right=False, failure="WEFT-E0001: no", weft_ms=None, peak_fraction=None),
        _row("magic", peak_fraction=1.03),
        _row("rounding", peak_fraction=1.019),
        _row("fewer", peak_fraction=1.8, saving=2.0),
        _row("too few", peak_fraction=2.05, saving=2.0),
        _row("bandwidth", peak_fraction=1.5, limit="copy"),
    ]
    found = report.failures(rows)
    assert [text.split(":")[0] for text in found] == ["wrong", "refused", "magic", "too few"]


def test_geometric_mean() -> None:
    assert report.geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)


def test_everything_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        _row("one", facts={"compile_s": 1.5}),
        _row("two", best_peer_ratio=0.8, group="h", absent={"q": "not installed"}),
        _row(
            "three",
            best_peer_ratio=0.5,
            group="h",
            own="one",
            weft_ms=0.5,
            right=False,
            max_error=1.0,
        ),
    ]
    report.show("title", rows, ["limit line"], ["left"])
    text = capsys.readouterr().out
    for expected in (
        "limit line",
        "one: compile_s 1.5\n",
        "empty call of p: 2.0 to 2.0 us, subtracted",
        "geometric mean, g: 1.100",
        "; 0.500 of the limit (least 0.500, 1 rows); 0.625 of it in the same turns",
        "geometric mean, h: 0.632",
        "geometric mean, all: 0.761",
        "geometric mean beside p: 1.386 of its speed (least 1.100, 3 rows)",
        "geometric mean, h beside Weft's own float32: 2.000 times as fast (least 2.000, 1 rows)",
        "2 losses:\n  0.500 three against p\n  0.800 two against p",
        "q took no part in h: not installed",
        "no time for left",
        "FAILED three: wrong",
    ):
        assert expected in text
