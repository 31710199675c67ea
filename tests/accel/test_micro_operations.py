"""Lists of micro-operations in a small memory: there when they are needed, loaded no more often."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tests.accel.targets import SMALL, target
from weft.accel.micro_operations import with_lists
from weft.accel.refusal import Refusal
from weft.accel.sequential_program import Region, SequentialIssue, Words

DEPTH = 16  # micro-operations that the machine holds
AT = 100  # element of main memory where they begin


def issues_of(lists: Sequence[Words | None]) -> list[SequentialIssue]:
    region = Region("acc", 0, 1, True)
    return [SequentialIssue("gemm" if words is not None else "load_inp", {}, (region,), words)
            for words in lists]  # fmt: skip


def loaded(lists: Sequence[Words | None]) -> tuple[list[SequentialIssue], list[int]]:
    own = target(SMALL)
    return with_lists(own.machine, own.capabilities, issues_of(lists), AT)


def check(lists: Sequence[Words | None]) -> int:
    """Every instruction finds its words, which loads brought; how many loads."""
    found, image = loaded(lists)
    memory: list[int | None] = [None] * DEPTH
    given, loads = iter(lists), 0
    for draft in found:
        if draft.operation == "load_uop":
            loads += 1
            get = draft.fields.get
            at, first, count = get("sram_base", 0), get("dram_base", 0) - AT, get("x_size", 0)
            assert at + count <= DEPTH and count > 0
            memory[at : at + count] = image[first : first + count]
            assert Region("uop", at, at + count, True) in draft.regions
            continue
        words = next(given)
        if words is None:
            assert draft == issues_of([None])[0]
            continue
        begin, end = draft.fields["uop_bgn"], draft.fields["uop_end"]
        assert tuple(memory[begin:end]) == words
        assert Region("uop", begin, end, False) in draft.regions and draft.words is None
    assert next(given, "end") == "end"
    distinct = {words for words in lists if words is not None}
    assert len(image) == sum(map(len, distinct)), "each list lies in main memory once"
    return loads


def test_random_lists() -> None:
    again = 0
    for seed in range(200):
        pick = Random(f"lists {seed}")
        every: list[Words] = [
            tuple(pick.randrange(1 << 20) for _ in range(pick.choice((1, 2, 5, 8, 15, 16))))
            for _ in range(pick.randint(1, 8))
        ]
        lists = [pick.choice([*every, None]) for _ in range(30)]
        again += check(lists) > len({words for words in lists if words is not None})
    assert again > 20, "some are loaded again"


def test_what_is_there_is_not_loaded_again() -> None:
    one, other = (1, 2, 3), (4, 5)
    assert check([one, one, None, other, one, other]) == 1, "both come at once"


def test_two_that_do_not_fit_together() -> None:
    one, other = tuple(range(10)), tuple(range(20, 30))
    assert check([one, other, one, other]) == 4


def test_nothing_to_load() -> None:
    assert check([]) == check([None, None]) == 0


def test_a_list_that_has_no_room() -> None:
    assert check([tuple(range(DEPTH))]) == 1
    with pytest.raises(Refusal, match="uop has no room for 17 micro-operations"):
        loaded([tuple(range(DEPTH + 1))])
