"""Regular expressions against Python's, and in time that does not explode."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.host.full_match import full_match
from weft.ir.errors import BudgetError, ModelError, UnsupportedError

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "-",
        ".",
        "[ab]",
        "[^a]",
        "[a-c-]",
        "\\d",
        "\\w",
        "\\S",
        "\\.",
        "[\\d\\-x]",
        "^",
        "$",
        "\\b",
    ]
)
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds(
            "({}){}".format, inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?"])
        ),
    ),
    max_leaves=6,
)
TEXTS = st.text("ab-.0x\n", max_size=6)


@settings(max_examples=400, derandomize=True)
@given(PATTERNS, TEXTS)
def test_as_python_has_it(pattern, text):
    strict = pattern.replace("$", "\\Z")  # Python's $ also matches before a last newline
    assert full_match(pattern, [text]) == [re.fullmatch(strict, text) is not None]


def test_doubled_repetition():
    assert full_match("a{2}{3}", ["a" * 6, "a" * 5, "a" * 7]) == [True, False, False]
    assert full_match("a**", ["", "aaa", "b"]) == [True, True, False]


def test_a_pattern_on_which_backtracking_never_ends():
    assert full_match("(a|a)*b", ["a" * 5000]) == [False]
    assert full_match("(a?){50}a{50}", ["a" * 50]) == [True]


@pytest.mark.parametrize("pattern", ["(", "a)", "[a", "*a", "a\\", "a{2,1}", "a{1001}", "[b-a]"])
def test_malformed(pattern):
    with pytest.raises(ModelError, match="WEFT-E0234"):
        full_match(pattern, ["a"])


@pytest.mark.parametrize("pattern", ["(?P<n>a)", "(?i)a", "\\pL", "[[:alpha:]]"])
def test_unsupported(pattern):
    with pytest.raises(UnsupportedError, match="WEFT-E0235"):
        full_match(pattern, ["a"])


@pytest.mark.parametrize(
    "pattern", ["(((a{100}){100}){100})", "(" * 300 + ")" * 300, "a{9}{9}{9}{9}{9}"]
)
def test_budget(pattern):
    with pytest.raises(BudgetError, match="WEFT-E0236"):
        full_match(pattern, ["a"])
