"""Names for C from whatever users call things."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.codegen.c_interface import identifier, identifiers

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")  # nothing that C reserves by its form


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("resnet18", "resnet18"),
        ("torch-jit-export", "torch_jit_export"),
        ("main graph / 2", "main_graph_2"),
        ("18resnet", "m_18resnet"),
        ("", "m"),
        ("é", "m"),
        ("__init__", "init"),
        ("while", "m_while"),
        ("linux", "m_linux"),
    ],
)
def test_names_stay_readable(text, expected) -> None:
    assert identifier(text) == expected


def test_equal_names_get_numbers() -> None:
    assert identifiers(["x", "x!", "x_2", "x", "?", "m"]) == [
        "x",
        "x_2",
        "x_2_2",
        "x_3",
        "m",
        "m_2",
    ]


@given(st.lists(st.text() | st.sampled_from(["x", "x_2", "x_2_2", "if", "_if", "m_if"])))
def test_all_are_identifiers_and_differ(texts) -> None:
    names = identifiers(texts)
    assert len(set(names)) == len(names) == len(texts)
    for name in names:
        assert PLAIN.fullmatch(name)
        assert name not in ("if", "while", "int", "class", "linux")


@given(st.text())
def test_an_identifier_is_its_own(text) -> None:
    assert identifier(identifier(text)) == identifier(text)


def test_thousands_of_equal_names_take_no_time() -> None:
    assert identifiers(["-"] * 20_000)[-1] == "m_20000"
