"""Constants on huge pages: a hint, which changes nothing that anybody sees."""

from __future__ import annotations

import numpy as np
import pytest

from weft.runtime import huge_pages
from weft.runtime.huge_pages import on_huge_pages

MIB = 1 << 20


def test_only_whole_huge_pages_inside_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[tuple[int, int]] = []
    monkeypatch.setattr(huge_pages, "_page", lambda: MIB)
    monkeypatch.setattr(huge_pages, "_madvise", lambda at, size, _: named.append((at, size)))
    memory = np.zeros(4 * MIB, np.uint8)
    begin = -memory.ctypes.data % MIB
    at = memory.ctypes.data + begin
    for first, last in ((0, 2), (1, 2), (0, 1), (1, 3)):
        on_huge_pages(memory[begin + first : begin + MIB * last])
    assert named == [(at, 2 * MIB), (at + MIB, MIB), (at, MIB), (at + MIB, 2 * MIB)]
    named.clear()
    on_huge_pages(memory[begin + 1 : begin + MIB + 2])  # more than a page, and none as a whole
    on_huge_pages(memory[:7])
    assert named == []


def test_the_hint_is_taken_or_refused_in_silence() -> None:
    array = np.arange(MIB)
    array.flags.writeable = False
    on_huge_pages(array)
    assert np.array_equal(array, np.arange(MIB))


def test_a_system_without_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_SIZE", huge_pages._SIZE / "missing")
    huge_pages._page.cache_clear()
    on_huge_pages(np.zeros(8 * MIB, np.uint8))
    huge_pages._page.cache_clear()
