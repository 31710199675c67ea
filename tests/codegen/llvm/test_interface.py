"""The functions of a library, called in this process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.weft.compiled_examples import (
    chain,
    chain_program,
    compiled,
    transpose,
    two_outputs,
    update,
)
from weft.codegen.llvm.interface import UNKNOWN
from weft.codegen.objects.native_library import link_by_llvm as link
from weft.ir.scalar_expr import Var
from weft.runtime.compiled import Compiled
from weft.runtime.library import library_object


class Library:
    """``run`` with tables of pointers, which is what the structs are in memory."""

    def __init__(self, compiled: Compiled) -> None:
        names = [f"{compiled.name}_{f}" for f in ("run", "workspace_bytes", "message")]
        code = b"".join(bytes(piece) for piece in library_object(compiled))
        self.tracker = link([code], names, {})
        self.at = {name.removeprefix(f"{compiled.name}_"): self.tracker[name] for name in names}

    def run(self, inputs, outputs, sizes, threads=1, workspace=None) -> int:
        function = ctypes.CFUNCTYPE(
            ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_void_p
        )(self.at["run"])
        tables = [_table(t) for t in (inputs, outputs, sizes)]
        return function(*tables, threads, self.memory(sizes) if workspace is None else workspace)

    def memory(self, sizes) -> int:
        self.kept = np.empty(max(self.workspace_bytes(sizes), 64) + 64, np.uint8)
        at = self.kept.ctypes.data
        return at + -at % 64

    def workspace_bytes(self, sizes, threads=1) -> int:
        function = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int)
        return function(self.at["workspace_bytes"])(_table(sizes), threads)

    def message(self, status: int) -> str:
        function = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)
        return function(self.at["message"])(status).decode()


def _table(values) -> ctypes.Array | None:
    if values is None:
        return None
    numbers = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in values]
    return (ctypes.c_int64 * (len(numbers) + 1))(*numbers)


@pytest.fixture(scope="module")
def doubled() -> Library:
    return Library(chain())


X = np.arange(8, dtype=np.float32)


def test_it_runs(doubled) -> None:
    y = np.empty_like(X)
    assert doubled.run([X], [y], [8]) == 0
    np.testing.assert_array_equal(y, (X + 3) * 2)


def _refused() -> Iterator[tuple[tuple, str]]:
    y = np.empty_like(X)
    yield (None, [y], [8]), "inputs is NULL"
    yield ([X], None, [8]), "outputs is NULL"
    yield ([X], [y], None), "sizes is NULL"
    yield ([0], [y], [8]), "inputs->x is NULL or not aligned to 4 bytes"
    yield ([X.ctypes.data + 2], [y], [8]), "inputs->x is NULL or not aligned to 4 bytes"
    yield ([X], [0], [8]), "outputs->y is NULL or not aligned to 4 bytes"
    yield ([X], [y], [-1]), "n is no size: 0 to 1099511627776"
    yield ([X], [y], [2**40 + 1]), "n is no size: 0 to 1099511627776"
    yield ([X], [y], [8], 0), "threads is less than 1"
    yield ([X], [y], [8], -(2**31)), "threads is less than 1"
    yield ([X], [y], [8], 1, 64 + 32), "workspace is NULL or not aligned to 64 bytes"
    yield ([X], [y], [8], 1, 0), "workspace is NULL or not aligned to 64 bytes"


def test_each_mistake_has_a_status_of_its_own(doubled) -> None:
    statuses: dict[str, int] = {}
    for arguments, message in _refused():
        status = doubled.run(*arguments)
        assert status < 0
        assert doubled.message(status) == message
        assert statuses.setdefault(message, status) == status
    assert len(set(statuses.values())) == len(statuses)


def test_nothing_is_written_where_a_call_is_refused(doubled) -> None:
    y = np.full(8, 7, np.float32)
    assert doubled.run([X], [y], [-8]) < 0
    assert (y == 7).all()


def test_arrays_without_elements_may_be_null(doubled) -> None:
    assert doubled.run([0], [0], [0]) == 0
    assert doubled.run([1], [1], [0]) == 0


def test_a_workspace_of_0_bytes_says_that_a_call_would_be_refused(doubled) -> None:
    assert doubled.workspace_bytes([-1]) == doubled.workspace_bytes(None) == 0
    assert doubled.workspace_bytes([8], 0) == 0
    sizes = [doubled.workspace_bytes([n]) for n in (0, 1, 100, 10_000)]
    assert all(size >= 64 and size % 64 == 0 for size in sizes)
    assert sizes == sorted(sizes)


def test_statuses_without_a_meaning(doubled) -> None:
    assert doubled.message(0) == "done"
    for status in (-1000, 1000, 2**31 - 1, -(2**31)):
        assert doubled.message(status) == UNKNOWN


def test_overflow_of_sizes_and_guards() -> None:
    flip = Library(transpose())
    x = np.empty(6, np.float32)
    assert flip.message(flip.run([x], [x], [2**40, 2**40])) == "the sizes are too large"
    assert "less than 1,000,000" in flip.message(flip.run([x], [x], [1000, 1000]))
    assert flip.workspace_bytes([1000, 1000]) == 0 < flip.workspace_bytes([999, 1000])


def test_intermediates_that_nobody_can_count() -> None:
    n = Var("n")
    program = replace(chain_program(), arena=n * n * 64)
    large = Library(compiled(program, [("b", np.zeros(1, np.float32))]))
    assert large.workspace_bytes([2**20]) == 2**46 + 64 < large.workspace_bytes([2**28])
    assert large.workspace_bytes([2**30]) == 0
    x = np.empty(1, np.float32)
    assert large.message(large.run([x], [x], [2**30])) == "the sizes are too large"


@pytest.mark.parametrize("element", [0, 7])
def test_failed_checks_leave_their_numbers_in_the_workspace(doubled, element) -> None:
    x = X.copy()
    x[element] = -2000
    y = np.empty_like(x)
    memory = doubled.memory([8])
    status = doubled.run([x], [y], [8], 1, memory)
    assert status > 0
    assert doubled.message(status) == "element {0} of in0 is below -1000 ({1})"
    assert list((ctypes.c_int64 * 2).from_address(memory)) == [element, 7]
    assert doubled.run([X], [y], [8], 1, memory) == 0  # the same workspace again


def test_results_that_are_copied_over_an_input_leave_it_alone_on_failure() -> None:
    advance = Library(update(False))
    state, step = X.copy(), X.copy()
    state[3] = -2000
    before = state.copy()
    assert _in_place(advance, state, step) > 0
    np.testing.assert_array_equal(state, before)
    state[3] = 3
    assert _in_place(advance, state, step) == 0
    np.testing.assert_array_equal(state, X + X)


def _in_place(library: Library, state: np.ndarray, step: np.ndarray) -> int:
    """There are no outputs, so there is no struct of them."""
    function = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
    )(library.at["run"])
    tables = _table([state, step]), _table([8])
    return function(*tables, 1, library.memory([8]))


def test_what_steps_share_in_words_shares_a_status() -> None:
    both = Library(two_outputs())
    x = np.array([-2000], np.int32)
    assert both.run([x, x], [x.copy(), x.copy()], [1]) == 1
    assert both.message(2) == UNKNOWN
