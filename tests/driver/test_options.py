from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.driver.options import VARIABLES, Options
from weft.ir.errors import CompileError, WeftWarning


def test_defaults_and_immutability() -> None:
    options = Options()
    assert options == Options.from_environment({})
    with pytest.raises(FrozenInstanceError):
        options.strict = True  # type: ignore[misc]


@pytest.mark.parametrize(
    "wrong",
    [
        {"strict": 1},
        {"threads": 0},
        {"threads": True},
        {"threads": 1.0},
        {"threads": 5000},
        {"workers": -1},
        {"verify": "some"},
        {"effort": "some"},
        {"effort": True},
        {"winograd": True},
        {"winograd": "maybe"},
        {"online": "no"},
        {"memory": -1},
        {"memory": "1 GB"},
        {"cache_bytes": -1},
        {"fold_bytes": None},
        {"job_seconds": 0},
        {"job_seconds": float("nan")},
        {"job_seconds": float("inf")},
        {"job_seconds": True},
        {"cache_dir": 3},
        {"print_after": "scop"},
        {"logs": ("+",)},
        {"logs": ("a b",)},
        {"instructions": (3,)},
    ],
)
def test_bad_values_are_named(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(CompileError, match=rf"WEFT-E0001: option {name} is ") as caught:
        Options(**wrong)
    assert "options: strict, target, effort, winograd, memory, online" in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"WEFT_STRICT": "1"}, Options(strict=True)),
        ({"WEFT_STRICT": "Off"}, Options()),
        ({"WEFT_STRICT": ""}, Options()),
        ({"WEFT_THREADS": "2", "WEFT_WORKERS": "0"}, Options(threads=2, workers=0)),
        ({"WEFT_VERIFY": "full"}, Options(verify="full")),
        ({"WEFT_EFFORT": "quick"}, Options(effort="quick")),
        ({"WEFT_WINOGRAD": "off"}, Options(winograd="off")),
        ({"WEFT_ONLINE": "off"}, Options(online="off")),
        ({"WEFT_CACHE_DIR": "/tmp/x"}, Options(cache_dir="/tmp/x")),
        ({"WEFT_CACHE_DIR": ""}, Options(cache=False)),
        ({"WEFT_CACHE_DIR": "OFF"}, Options(cache=False)),
        ({"WEFT_DUMP": "d"}, Options(dump="d")),
        ({"WEFT_PRINT_AFTER": "scop, loops,"}, Options(print_after=("scop", "loops"))),
        ({"WEFT_LOGS": "+fusion,tiling,-all"}, Options(logs=("+fusion", "tiling", "-all"))),
        ({"OTHER": "1", "weft_strict": "1"}, Options()),
    ],
)
def test_environment(environment: dict[str, str], expected: Options) -> None:
    assert Options.from_environment(environment) == expected


@pytest.mark.parametrize(
    "environment",
    [
        {"WEFT_STRICT": "maybe"},
        {"WEFT_THREADS": "two"},
        {"WEFT_THREADS": "0"},
        {"WEFT_THREADS": "-1"},
        {"WEFT_THREADS": "9" * 5000},
        {"WEFT_VERIFY": "none"},
        {"WEFT_EFFORT": "fast"},
        {"WEFT_LOGS": "+fu sion"},
    ],
)
def test_bad_environment(environment: dict[str, str]) -> None:
    with pytest.raises(CompileError, match="WEFT-E0001"):
        Options.from_environment(environment)


def test_unknown_variables_are_warned_about() -> None:
    with pytest.warns(WeftWarning, match="WEFT_THREAD means nothing to Weft"):
        assert Options.from_environment({"WEFT_THREAD": "1"}) == Options()


# What a program gives itself it gets, and what it leaves alone the environment decides.
BESIDE = [
    ("WEFT_STRICT", "1", {"strict": True}, {"strict": False}),
    ("WEFT_TARGET", "x86-64-v3", {"target": "x86-64-v3"}, {"target": "host"}),
    ("WEFT_EFFORT", "quick", {"effort": "quick"}, {"effort": "full"}),
    ("WEFT_WINOGRAD", "off", {"winograd": "off"}, {"winograd": "on"}),
    ("WEFT_ONLINE", "off", {"online": "off"}, {"online": "on"}),
    ("WEFT_THREADS", "2", {"threads": 2}, {"threads": None}),
    ("WEFT_WORKERS", "0", {"workers": 0}, {"workers": None}),
    ("WEFT_VERIFY", "full", {"verify": "full"}, {"verify": "normal"}),
    ("WEFT_TUNED", "records", {"tuned": "records"}, {"tuned": "off"}),
    ("WEFT_RECORDS", "r.sqlite", {"records": "r.sqlite"}, {"records": None}),
    ("WEFT_CACHE_DIR", "/tmp/x", {"cache_dir": "/tmp/x"}, {"cache_dir": None}),
    ("WEFT_CACHE_DIR", "off", {"cache": False}, {"cache": True}),
    ("WEFT_DUMP", "d", {"dump": "d"}, {"dump": None}),
    ("WEFT_PRINT_AFTER", "scop", {"print_after": ("scop",)}, {"print_after": ()}),
    ("WEFT_LOGS", "+fusion", {"logs": ("+fusion",)}, {"logs": ()}),
]


@pytest.mark.parametrize(("variable", "value", "asked", "given"), BESIDE)
def test_options_beside_the_environment(
    variable: str,
    value: str,
    asked: dict[str, Any],
    given: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, stated = Options(fold_bytes=7), Options(fold_bytes=7, **given)
    assert plain == stated
    monkeypatch.setenv(variable, value)
    heard = Options(fold_bytes=7)
    assert heard != plain and heard == replace(plain, **asked)
    assert replace(heard, **given) == Options(fold_bytes=7, **given) == stated
    assert replace(heard, memory=3) == Options(fold_bytes=7, memory=3)
    monkeypatch.delenv(variable)
    assert replace(heard, memory=3) == replace(plain, memory=3, **asked)  # read when it was made


def test_every_variable_stands_beside_options() -> None:
    assert sorted({variable for variable, *_ in BESIDE}) == sorted(VARIABLES)


def test_options_of_a_compilation_hear_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    A = weft.placeholder((3,), name="A")
    B = weft.compute((3,), lambda i: A[i] + 1, name="B")
    monkeypatch.setenv("WEFT_DUMP", str(tmp_path / "dump"))
    weft.compile(B, options=Options(cache=False))
    assert list((tmp_path / "dump").iterdir())
    monkeypatch.setenv("WEFT_WORKERS", "many")
    with pytest.raises(CompileError, match=r"WEFT-E0001.*'many'"):
        Options(cache=False)
    weft.compile(B, options=Options(cache=False, workers=0))
    monkeypatch.setenv("WEFT_THREAD", "1")
    with pytest.warns(WeftWarning, match="WEFT_THREAD means nothing to Weft"):
        weft.compile(B, options=Options(cache=False, workers=0))


def test_only_what_can_change_code_is_in_the_key() -> None:
    assert Options(threads=1, dump="x", cache=False, verify="full").key == Options().key
    assert Options(strict=True).key != Options().key
