"""Records of a tuner: a file that survives other hands, other versions and full disks."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir.errors import CompileError, WeftWarning
from weft.runtime.records import About, Confirmed, Records, Session, Trial, translated

HERE = About("p", "(('N', 4),)", "f", "zen4 ab", "1 threads, strict=False", ("S0", "A"))
PLAN = '{"S0.strategy": "single"}'
TRIAL = Trial(PLAN, 1, 1.25, "", 0.5)
CONFIRMED = Confirmed(PLAN, 1.25, 1.1, 1.4)
SESSION = Session(0, "60.0 s, None trials", 7, 3.5, True)
ROWS = (TRIAL, CONFIRMED, SESSION)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "records.sqlite"


@pytest.fixture
def kept(path: Path) -> Iterator[Records]:
    with Records(path) as records:
        for row in ROWS:
            records.keep(HERE, row)
        yield records


def rows(records: Records, about: About = HERE) -> list[Any]:
    return [row for kind in (Trial, Confirmed, Session) for row in records.find(kind, about)]


def test_what_is_kept_is_found_again(kept: Records, path: Path) -> None:
    assert rows(kept) == [*ROWS]
    with Records(path) as again:
        assert rows(again) == [*ROWS]


def test_a_plan_timed_again_takes_the_place_of_the_older(kept: Records) -> None:
    kept.keep(HERE, replace(TRIAL, gain=1.5))
    kept.keep(HERE, replace(TRIAL, effort=2))
    kept.keep(HERE, replace(SESSION, trials=9))
    assert {(t.effort, t.gain) for t in kept.find(Trial, HERE)} == {(1, 1.5), (2, 1.25)}
    assert kept.find(Session, HERE) == [replace(SESSION, trials=9)]


@pytest.mark.parametrize(
    "other",
    ["program", "sizes", "family", "machine", "context", "version", "names"],
)
def test_no_row_is_served_for_anything_else(kept: Records, other: str) -> None:
    elsewhere = replace(HERE, **{other: ("T0", "B") if other == "names" else "another"})
    assert rows(kept, elsewhere) == []
    kept.keep(elsewhere, replace(CONFIRMED, gain=3.0))
    assert kept.find(Confirmed, HERE) == [CONFIRMED]
    assert kept.find(Confirmed, elsewhere) == [replace(CONFIRMED, gain=3.0)]


def test_alike_is_asked_by_what_is_the_same_and_the_latest_comes_first(kept: Records) -> None:
    far = replace(HERE, machine="other")
    kept.keep(far, replace(CONFIRMED, gain=2.0))
    found = kept.alike(Confirmed, HERE, "program", "sizes")
    assert [(about.machine, row.gain) for about, row in found] == [
        ("other", 2.0),
        ("zen4 ab", 1.25),
    ]
    assert kept.alike(Confirmed, HERE, "program", "machine") == [(HERE, CONFIRMED)]


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a;DROP TABLE trial", "ä\u2603\n", "", "%s?"])
def test_names_may_be_anything(path: Path, name: str) -> None:
    about = replace(HERE, names=(name, "A"), machine=name)
    plan = json.dumps({f"{name}.strategy": name})
    with Records(path) as records:
        records.keep(about, replace(TRIAL, plan=plan))
        assert records.find(Trial, about) == [replace(TRIAL, plan=plan)]
        lines = list(records.exported())
    with Records(path.with_name("other")) as other:
        assert other.take(lines, "x") == 1
        assert other.find(Trial, about) == [replace(TRIAL, plan=plan)]


# ---- lines of JSON -------------------------------------------------------------------------------


def test_what_is_exported_is_imported(kept: Records, path: Path) -> None:
    lines = list(kept.exported())
    with Records(path.with_name("other")) as other:
        assert other.take([*lines, "", "  "], "x") == len(lines) == 3
        assert rows(other) == [*ROWS]
        assert list(other.exported()) == lines  # the times included
        assert other.take(lines, "x") == 3
        assert list(other.exported()) == lines


HOSTILE = {
    "no JSON": "{",
    "an array": "[]",
    "a number": "3",
    "nothing": "null",
    "deep": "[" * 100_000,
    "a long number": "9" * 10_000,
    "text that is none": '"\\ud800"',
}
FIELDS: dict[str, Any] = {
    "kind": ["row", 3, None, [], {}],
    "plan": ["", "{", "[1]", '{"a": 1.5}', '{"a": true}', "[" * 99_999, 3, None, "\ud800"],
    "gain": [0, -1.0, True, "1", None, float("nan"), float("inf"), 1e305],
    "effort": [True, 1.0, "1", None, 1 << 70],
    "failed": [0, None, [], "\ud800"],
    "names": ["", "{", "3", "{}", "[1]", '["\\ud800"]', ["S0"], "[" * 99_999],
    "machine": [3, None, "x" * (1 << 21)],
    "at": [None, "now", -1, 1e18, float("nan"), [], True],
}  # fmt: skip
WRONG = [(name, value) for name, values in FIELDS.items() for value in values]


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_a_line_that_is_no_record_is_named_and_nothing_is_added(path: Path, line: str) -> None:
    refused(path, line)


@pytest.mark.parametrize(
    ("name", "value"), WRONG, ids=[f"{n}-{k}" for k, (n, _) in enumerate(WRONG)]
)
def test_fields_that_make_no_sense(path: Path, name: str, value: Any) -> None:
    refused(path, json.dumps({**json.loads(line_of(path)), name: value}))


@pytest.mark.parametrize("name", ["kind", "program", "plan", "at", "version", "names"])
def test_fields_that_are_missing(path: Path, name: str) -> None:
    data = json.loads(line_of(path))
    del data[name]
    refused(path, json.dumps(data))


def line_of(path: Path) -> str:
    with Records(path.with_name("one")) as records:
        records.keep(HERE, TRIAL)
        return next(records.exported())


def refused(path: Path, line: str) -> None:
    good = line_of(path)
    with Records(path) as records:
        with pytest.raises(CompileError, match="WEFT-E1112") as caught:
            records.take([good, "", line, good], "file.jsonl")
        assert caught.value.where == "file.jsonl:3"
        assert list(records.exported()) == []


def test_an_import_without_room_adds_nothing(kept: Records) -> None:
    before = list(kept.exported())
    lines = [
        json.dumps({**json.loads(before[0]), "program": f"p{k}", "failed": "x" * 9000})
        for k in range(100)
    ]
    full(kept)
    with pytest.raises(
        CompileError, match=r"WEFT-E1113: the records .* cannot be written"
    ) as caught:
        kept.take(lines, "x")
    assert "full" in str(caught.value)
    assert list(kept.exported()) == before


# ---- files ---------------------------------------------------------------------------------------


def full(records: Records) -> None:
    """No page more."""
    (pages,) = records._rows.execute("PRAGMA page_count").fetchone()
    records._rows.execute(f"PRAGMA max_page_count = {pages}")


def test_on_a_full_disk_a_session_goes_on_with_what_it_knows(kept: Records, path: Path) -> None:
    full(kept)
    with pytest.warns(WeftWarning, match="kept for this process alone: database or disk is full"):
        for number in range(400):
            kept.keep(HERE, replace(TRIAL, effort=number + 2, failed="x" * 100))
    found = {t.effort for t in kept.find(Trial, HERE)}
    assert found == {1, *range(2, 402)}
    assert kept.find(Confirmed, HERE) == [CONFIRMED]


@pytest.mark.parametrize(
    "junk", [b"", b"SQLite format 3\0" + b"\xff" * 5000, b"no database " * 999]
)
def test_a_file_that_is_no_database(path: Path, junk: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(junk)
    if junk:
        with pytest.warns(WeftWarning, match="cannot be used, and are kept for this process alone"):
            records = Records(path)
    else:
        records = Records(path)
    with records:
        records.keep(HERE, TRIAL)
        assert records.find(Trial, HERE) == [TRIAL]
    assert not junk or path.read_bytes() == junk  # somebody may want it


def test_a_file_cut_short(kept: Records, path: Path) -> None:
    for number in range(200):
        kept.keep(HERE, replace(TRIAL, effort=number, failed="x" * 500))
    kept.close()
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.warns(WeftWarning, match="kept for this process alone"), Records(path) as records:
        assert len(records.find(Trial, HERE)) <= 200
        records.keep(HERE, CONFIRMED)
        assert records.find(Confirmed, HERE) == [CONFIRMED]


def test_tables_of_another_version_are_left_alone(kept: Records, path: Path) -> None:
    kept._rows.execute("PRAGMA user_version = 99")
    kept.close()
    with (
        pytest.warns(WeftWarning, match="version 99 of the tables, not 1"),
        Records(path) as records,
    ):
        assert rows(records) == []
        records.keep(HERE, TRIAL)
    direct = sqlite3.connect(path)
    assert direct.execute("SELECT COUNT(*) FROM trial").fetchone() == (1,)
    assert direct.execute("PRAGMA user_version").fetchone() == (99,)
    direct.close()


@pytest.mark.parametrize("path_", ["/proc/none/records", "/dev/null/x", "with\0nul"])
def test_places_that_nobody_may_write_to(path_: str) -> None:
    with pytest.warns(WeftWarning, match="kept for this process alone"), Records(path_) as records:
        records.keep(HERE, TRIAL)
        assert records.find(Trial, HERE) == [TRIAL]


def test_a_file_that_may_only_be_read(kept: Records) -> None:
    kept._rows.execute("PRAGMA query_only = 1")
    with pytest.warns(WeftWarning, match="attempt to write a readonly database"):
        kept.keep(HERE, replace(TRIAL, effort=2))
    assert {t.effort for t in kept.find(Trial, HERE)} == {1, 2}


COLUMNS = ["plan", "effort", "gain", "failed", "names", "machine", "at"]


@settings(max_examples=30)
@given(
    st.sampled_from(COLUMNS), st.none() | st.binary() | st.text() | st.floats() | st.integers(-9, 9)
)
def test_rows_of_another_hand_are_passed_over(column: str, value: object) -> None:
    with TemporaryDirectory() as folder, Records(Path(folder) / "records") as records:
        records.keep(HERE, TRIAL)
        records.keep(replace(HERE, program="q"), TRIAL)
        records._rows.execute(f"UPDATE trial SET {column} = ? WHERE program = 'p'", [value])
        for row in records.find(Trial, HERE):
            assert row.gain > 0 and isinstance(row.plan, str)
        assert records.find(Trial, replace(HERE, program="q")) == [TRIAL]


def test_two_processes_at_once(path: Path) -> None:
    code = """
import sys
from dataclasses import replace
from weft.runtime.records import Records
from tests.runtime.test_records import HERE, TRIAL
with Records(sys.argv[1]) as records:
    for number in range(200):
        records.keep(HERE, replace(TRIAL, effort=number, plan='{"x": %s}' % sys.argv[2]))
"""
    command = [sys.executable, "-W", "error", "-c", code, str(path)]
    both = [subprocess.Popen([*command, name], cwd=Path(__file__).parents[2]) for name in "12"]
    assert [process.wait(60) for process in both] == [0, 0]
    with Records(path) as records:
        found = {(t.plan, t.effort) for t in records.find(Trial, HERE)}
    assert found == {(f'{{"x": {p}}}', n) for p in "12" for n in range(200)}


def test_prune(kept: Records) -> None:
    kept.keep(replace(HERE, version="0.0"), TRIAL)
    kept.keep(replace(HERE, machine="far"), TRIAL)
    assert kept.prune() == 1 and len(rows(kept)) == 3
    assert kept.prune(machine="far") == 1 and len(rows(kept)) == 3
    assert kept.prune(older=3600.0) == 0
    assert kept.prune(older=0.0) == 3 and rows(kept) == []


def test_the_state_is_another_after_each_change(kept: Records) -> None:
    states = {kept.state}
    kept.keep(HERE, TRIAL)
    assert kept.state in states  # trials are no advice
    kept.keep(HERE, replace(CONFIRMED, low=1.2))
    states.add(kept.state)
    kept.keep(replace(HERE, sizes="()"), CONFIRMED)
    states.add(kept.state)
    kept.prune(older=0.0)
    assert len(states | {kept.state}) == 4


# ---- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "plan", "expected"),
    [
        ((), (), {"S0.k_tile": 4}, {"S0.k_tile": 4}),
        (("S0", "A"), ("T", "B"), {"S0.pack_once_A": "yes"}, {"T.pack_once_B": "yes"}),
        (("A", "B"), ("B", "A"), {"x.pack_once_A": "A"}, {"x.pack_once_B": "B"}),
        (("S1", "S10"), ("P", "Q"), {"S10.strip": 1, "S1.strip": 2}, {"Q.strip": 1, "P.strip": 2}),
        (
            ("S0", "S1"),
            ("P", "Q"),
            {"S0 & S1.loop_fusion": "apart"},
            {"P & Q.loop_fusion": "apart"},
        ),
        (
            ("a.b", "c"),
            ("d", "e"),
            {"a.b.strip": 1, "aXb.strip": 2},
            {"d.strip": 1, "aXb.strip": 2},
        ),
        (("S0",), (), {"S0.strip": 1}, {"S0.strip": 1}),
    ],
)
def test_plans_speak_of_other_names(before: Any, after: Any, plan: Any, expected: Any) -> None:
    assert translated(plan, before, after) == expected
