"""What a kernel cannot say is refused at its line, with a code, a reason and a way out."""

# ruff: noqa: F821

import functools
import inspect
import math
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.frontend.loops.refused_kernels import REFUSED, misspelt
from weft.ir.errors import BudgetError, KernelError, WeftError


@pytest.mark.parametrize("name", REFUSED)
def test_refusal(name: str) -> None:
    function = REFUSED[name]
    lines, first = inspect.getsourcelines(function)
    number, line = next((k, t) for k, t in enumerate(lines) if "  # E0" in t)
    code, *words = re.split(r" \| | ", line.split("  # ")[1].strip(), maxsplit=1)
    with pytest.raises(KernelError) as caught:
        _ = weft.kernel(function).lowered
    error = caught.value
    assert error.code == f"WEFT-{code}"
    for part in words[0].split(" | "):
        assert part in str(error)
    assert re.search(rf"refused_kernels\.py:{first + number}:\d+", error.where), error.where


def recursive(A: weft.f64["N"]):
    again(A)


again = weft.kernel(recursive)


def test_recursion_is_refused() -> None:
    with pytest.raises(KernelError, match=r"E0169.*calls itself"):
        again(np.ones(3))


def descend(x: float) -> float:
    return descend(x - 1)


def test_recursion_of_plain_functions_is_refused() -> None:
    @weft.kernel
    def calls(A: weft.f64["N"]):
        A[0] = descend(A[0])

    with pytest.raises(KernelError, match=r"E0169.*calls itself"):
        calls(np.ones(3))


def _written(folder: Path, body: str) -> weft.Kernel:
    """A kernel from a file, its body as given."""
    path = folder / "written.py"
    path.write_text(f"import weft\n\n@weft.kernel\ndef k(A: weft.f64['N']):\n{body}\n")
    spec = spec_from_file_location("written", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


def test_long_sums(tmp_path: Path) -> None:
    terms = " + ".join(f"A[{k % 7}]" for k in range(800))
    kernel = _written(tmp_path, f"    A[0] = {terms}")
    assert len(kernel.lowered.scop.statements[0].reads) == 7


@pytest.mark.parametrize(
    "body",
    [
        "    if N == 0:\n        pass\n"
        + "".join(f"    elif N == {k}:\n        A[0] = {k}\n" for k in range(1, 900)),
        "    A[0] = 1\n" * 2500,
    ],
    ids=["elif", "statements"],
)
def test_what_would_take_for_ever_is_refused(body: str, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="E0173"):
        _ = _written(tmp_path, body).lowered


@functools.wraps(misspelt)
def wrapped(A: Any) -> None:
    misspelt(A)


@pytest.mark.parametrize("thing", [math.sin, lambda A: None, int, eval("lambda: 1"), 3, wrapped])
def test_what_has_no_source_is_refused(thing: Any) -> None:
    with pytest.raises(KernelError, match="E0160"):
        _ = weft.kernel(thing).lowered


@pytest.mark.long
@pytest.mark.parametrize("arguments", [["-"], ["-c", "TEXT"]])
def test_what_python_keeps_no_text_of(arguments: list[str]) -> None:
    """Standard input, as the prompt's, and ``-c``."""
    text = """
import weft

@weft.kernel
def k(A: weft.f64["N"]):
    for i in range(N):
        A[i] += 1

try:
    k.lowered
except weft.KernelError as error:
    print(error)
"""
    found = subprocess.run(
        [sys.executable, *(text if a == "TEXT" else a for a in arguments)],
        input=text,
        capture_output=True,
        text=True,
    )
    code, why, hint = found.stdout.splitlines()
    assert code == "WEFT-E0160: the source of k cannot be read", found.stderr
    assert "Python keeps no text of what is typed at its prompt or comes from <" in why
    assert "in a file or a notebook cell" in hint


def test_the_column_is_that_of_the_part_that_is_wrong() -> None:
    with pytest.raises(KernelError) as caught:
        _ = weft.kernel(misspelt).lowered
    line = inspect.getsourcelines(misspelt)[0][2]
    assert caught.value.where.endswith(f":{line.index('alhpa') + 1}")


def test_accesses_out_of_bounds_are_refused_with_sizes() -> None:
    @weft.kernel
    def beyond(A: weft.f64["N"]):
        for i in range(N):
            A[i] = A[i + 1]

    with pytest.raises(
        WeftError, match=r"E0430.*\n.*A\[i\] = A\[i \+ 1\].*\n.*A\[1\] of shape \[1\]"
    ):
        beyond(np.ones(3))
