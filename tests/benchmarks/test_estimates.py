from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

import weft
from weft.benchmarks.__main__ import main
from weft.benchmarks.estimates import Point, chart, estimates, points, summaries


def _row(name: str, measured: float, estimate: float, bound: float) -> dict[str, Any]:
    return {"name": name, "weft_ms": measured, "estimate_ms": estimate, "bound_ms": bound}


ROWS = [
    _row("a", 1.0, 1.5, 0.5),
    _row("b", 2.0, 6.0, 0.0),
    _row("c", 4.0, 3.0, 3.9),
    {"kernel": "d", "weft_ms": 8.0, "estimate_ms": 9.0, "bound_ms": 1.0, "ratio": 2.0},
    {"name": "refused", "weft_ms": None, "estimate_ms": 1.0, "bound_ms": 1.0},
    {"name": "two threads", "weft_ms": 1.0},
    {**_row("call overhead", 1.0, 0.001, 0.0), "limit": ""},
    {"kernel": "geometric mean", "ratio": 2.0},
    {"name": "no numbers", "weft_ms": "1", "estimate_ms": float("nan"), "bound_ms": []},
]


def test_rows_without_an_estimate_are_passed_over() -> None:
    found = points(ROWS)
    assert [p.name for p in found] == ["a", "b", "c", "d"]
    assert [p.near for p in found] == [True, False, True, True]


def test_a_row_for_each_suite_and_one_for_all() -> None:
    fast = [Point("fast", 1.0, 1.0, 1.01)]
    good, bad, whole = summaries({"one": points(ROWS), "two": fast})
    assert (good["rows"], good["near"], good["violated"], good["right"]) == (4, "75%", 0, True)
    assert good["spearman"] == 0.8  # 1.5 6 3 9 beside 1 2 4 8: one pair the other way
    assert good["median"] == pytest.approx((1.125 + 1.5) / 2, abs=1e-3)
    assert (bad["violated"], bad["right"], bad["note"]) == (1, False, "fast")
    assert (whole["suite"], whole["rows"], whole["right"]) == ("all", 5, False)


def test_without_bounds() -> None:
    suite, whole = summaries({"one": points([_row("a", 1.0, 1.0, 0.0)])})
    assert (suite["rows"], suite["of_bound"], suite["right"], whole["rows"]) == (1, "", True, 1)


def test_a_picture_has_each_row_by_name() -> None:
    picture = ElementTree.fromstring(chart({"a <b>": points(ROWS), "none": []}))
    names = [e.text for e in picture.iter() if e.tag.endswith("title")]
    # an estimate for each, a bound where there is one, the two suites
    assert sorted(map(str, names)) == sorted([*"aabccdd", "a <b>", "none"])
    circles = [e for e in picture.iter() if e.tag.endswith("circle")]
    assert all(
        0 <= float(c.attrib["cx"]) <= 760 and 0 <= float(c.attrib["cy"]) <= 560 for c in circles
    )
    assert ElementTree.fromstring(chart({})).tag.endswith("svg")


def test_the_command(tmp_path: Path) -> None:
    suite, picture, data = tmp_path / "gemm.json", tmp_path / "p.svg", tmp_path / "out.json"
    suite.write_text(json.dumps(ROWS))
    arguments = ["estimates", str(suite), "--picture", str(picture), "--json", str(data)]
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 0, found.output
    assert [row["suite"] for row in json.loads(data.read_text())] == ["gemm", "all"]
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    suite.write_text(json.dumps([_row("magic", 1.0, 1.0, 2.0)]))
    assert CliRunner().invoke(main, ["estimates", str(suite)]).exit_code == 1
    for broken in ("{}", "[3]", "no", ""):
        suite.write_text(broken)
        refused = CliRunner().invoke(main, ["estimates", str(suite)])
        assert (
            refused.exit_code == 2 and "holds no rows" in refused.output
        ) or "gemm.json" in refused.output


def test_estimates_of_programs() -> None:
    x = weft.placeholder((4096,), name="x")
    y = weft.compute((4096,), lambda i: x[i] + 1.0, name="y")
    run = weft.compile(y, options=weft.Options(threads=1, cache=False))
    found = estimates(run, 1)
    assert 0 < found["bound_ms"] <= found["estimate_ms"] < 1.0
    assert estimates(run, 2) == {} == estimates(object(), 1) == estimates(run, 1, {"N": 3})
