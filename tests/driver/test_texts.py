"""Who wants no texts pays for none, and has a program of its own in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.errors import CallError

x = weft.placeholder((8,), name="x")
doubled = weft.compute((8,), lambda i: x[i] * 2, name="doubled")


def test_programs_with_and_without_texts_are_kept_apart(tmp_path: Path) -> None:
    def made(texts: bool) -> Any:
        options = weft.Options(texts=texts, cache_dir=str(tmp_path), threads=1)
        return weft.compile([doubled], options=options)

    bare, full, bare_again, full_again = map(made, (False, True, False, True))
    kept = ["from_cache" in each.stats for each in (bare, full, bare_again, full_again)]
    assert kept == [False, False, True, True]
    assert full_again.explain() == full.explain() and "doubled" in full.explain()
    assert bare_again.explain() == bare.explain() and "options.texts is False" in bare.explain()
    assert bare_again.source("llvm") == full_again.source("llvm")
    np.testing.assert_array_equal(bare_again(np.ones(8, np.float32)), np.full(8, 2, np.float32))


def test_what_is_not_kept_explains_itself_when_asked() -> None:
    options = weft.Options(texts=False, cache=False, threads=1)
    made: Any = weft.compile([doubled], options=options)
    assert "doubled" in made.explain()
    with pytest.raises(CallError) as caught:
        made.as_text("loops")
    assert caught.value.code == "WEFT-E0609"
