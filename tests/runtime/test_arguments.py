from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from weft.ir.errors import CallError
from weft.runtime.arguments import address, check_apart, check_writable, empty, located


@pytest.mark.parametrize(
    "array",
    [
        np.arange(4),
        np.arange(8)[::2],
        np.zeros((0, 3)),
        np.float32(3) * np.ones(()),
        np.broadcast_to(np.int8(3), (4,)),
        np.zeros(3, ml_dtypes.bfloat16),
        np.frombuffer(b"read only", np.uint8),
    ],
)
def test_address(array: np.ndarray) -> None:
    assert address(array) == array.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 0, 2), (3, 4)])
def test_empty_is_aligned_and_of_the_right_size(shape: tuple[int, ...]) -> None:
    dtype = np.dtype(np.int32)
    array, at = empty(shape, dtype, int(np.prod(shape)) * 4)
    assert array.shape == shape and array.dtype == dtype and at % 64 == 0
    assert at == address(array)
    array[...] = 7  # inside its own memory
    assert array.flags.c_contiguous and array.flags.writeable


def test_empty_refuses_what_no_machine_has() -> None:
    for size in (1 << 62, 1 << 70):
        with pytest.raises(CallError, match="WEFT-E0607"):
            empty((size,), np.dtype(np.uint8), size)


def test_located_copies_only_what_it_must() -> None:
    array, _ = empty((8,), np.dtype(np.float32), 32)
    array[:] = range(8)
    assert located(array, 64)[0] is array
    for other in (array[1:], array[::2], array[::-1]):
        copy, at = located(other, 64)
        assert not np.shares_memory(copy, array)
        assert at % 64 == 0 and copy.flags.c_contiguous
        np.testing.assert_array_equal(copy, other)
    assert located(array[1:], 4)[0].base is not None
    assert np.shares_memory(located(array[1:], 4)[0], array)


def test_arrays_too_tangled_to_compare_count_as_overlapping() -> None:
    memory = np.zeros(192_163_377, np.int8)  # NumPy's own example of a hard pair
    strided = np.lib.stride_tricks.as_strided
    a = strided(memory, (1049, 1049, 1049), (36674, 61119, 85569))
    b = strided(memory[64_023_025:], (1049, 1049, 1), (12223, 12224, 1))
    with pytest.raises(CallError, match="a overlaps b"):
        check_apart([("a", a)], [("b", b)])


def test_empty_arrays_do_not_overlap_themselves() -> None:
    check_writable(np.zeros((0, 5)), "A")
    with pytest.raises(CallError, match="overlaps itself"):
        check_writable(np.lib.stride_tricks.as_strided(np.zeros(5), (2, 5), (0, 8)), "A")


@pytest.mark.parametrize(
    ("shape", "strides", "overlaps"),
    [
        ((4,), (4,), True),  # steps of half an element
        ((3, 4), (8, 8), True),  # a sliding window
        ((3, 4), (24, 8), True),  # rows that are longer than they are apart
        ((3, 4), (8, 24), False),  # transposed
        ((3, 2), (32, 16), False),  # every other column
        ((1, 4), (0, 8), False),
    ],
)
def test_what_overlaps_itself(
    shape: tuple[int, ...], strides: tuple[int, ...], overlaps: bool
) -> None:
    array = np.lib.stride_tricks.as_strided(np.zeros(100)[40:], shape, strides)
    if overlaps:
        with pytest.raises(CallError, match="overlaps itself"):
            check_writable(array, "A")
    else:
        check_writable(array, "A")


def test_slices_do_not_overlap_themselves() -> None:
    for array in (np.zeros((5, 6, 7))[::-2, 1:5:3, ::-1], np.zeros((4, 6)).T[::2, ::-3]):
        check_writable(array, "A")
