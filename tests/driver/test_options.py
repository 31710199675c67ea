from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from weft.driver.options import Options
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
    assert "options: strict, target, winograd, memory, online" in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"WEFT_STRICT": "1"}, Options(strict=True)),
        ({"WEFT_STRICT": "Off"}, Options()),
        ({"WEFT_STRICT": ""}, Options()),
        ({"WEFT_THREADS": "2", "WEFT_WORKERS": "0"}, Options(threads=2, workers=0)),
        ({"WEFT_VERIFY": "full"}, Options(verify="full")),
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
        {"WEFT_LOGS": "+fu sion"},
    ],
)
def test_bad_environment(environment: dict[str, str]) -> None:
    with pytest.raises(CompileError, match="WEFT-E0001"):
        Options.from_environment(environment)


def test_unknown_variables_are_warned_about() -> None:
    with pytest.warns(WeftWarning, match="WEFT_THREAD means nothing to Weft"):
        assert Options.from_environment({"WEFT_THREAD": "1"}) == Options()


def test_only_what_can_change_code_is_in_the_key() -> None:
    assert Options(threads=1, dump="x", cache=False, verify="full").key == Options().key
    assert Options(strict=True).key != Options().key
