from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.weft.compiled_examples import chain
from weft.codegen.machines.host import host
from weft.driver.compiled_cache import cache_key, find, store
from weft.driver.options import Options
from weft.runtime.cache import Cache
from weft.runtime.executable import Executable

HOST = host().llvm
ONE = ("w", np.array([1, 2], np.float32))


def key(text="text", constants=(ONE,), target=None, options=None) -> bytes:
    return cache_key(text, constants, target or host(), options or Options())


def test_everything_that_matters_is_in_the_key() -> None:
    several = [
        key(),
        key("other"),
        key(constants=()),
        key(constants=(("v", ONE[1]),)),
        key(constants=(("w", np.array([1, 3], np.float32)),)),
        key(constants=(("w", ONE[1].view(np.int32)),)),
        key(constants=(("w", ONE[1].reshape(2, 1)),)),
        key(constants=(("w", np.zeros((), ml_dtypes.bfloat16)),)),
        key(target=replace(host(), llvm=replace(HOST, cpu="other"))),
        key(target=replace(host(), machine=replace(host().machine, barrier=1.0))),
        key(options=Options(strict=True)),
    ]
    assert len(set(several)) == len(several)
    assert key() == key(constants=(("w", np.array([1, 9, 2], np.float32)[::2]),))
    assert key() == key(options=Options(threads=1, dump="folder"))


def test_stored_and_found(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert find(cache, key(), HOST) is None
    assert store(cache, key(), chain())
    found = find(cache, key(), HOST)
    assert found is not None
    np.testing.assert_array_equal(Executable(found)(np.zeros(3, np.float32)), [6, 6, 6])
    for _, array in found.constants:
        assert array.ctypes.data % 64 == 0
    assert find(cache, key("other"), HOST) is None


def test_off() -> None:
    assert not store(None, key(), chain())
    assert find(None, key(), HOST) is None


@pytest.mark.parametrize("payload", [b"", b"no artifact", b"\x89WEFT\r\n\x1a" + bytes(500)])
def test_what_is_no_program_is_a_miss_and_goes(tmp_path: Path, payload: bytes) -> None:
    cache = Cache(tmp_path / "cache")
    cache.put(key(), [payload])
    assert find(cache, key(), HOST) is None
    assert not cache.path(key()).exists()


def test_a_program_for_another_processor_is_a_miss(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    features = HOST.features + ",+quantum"
    store(cache, key(), replace(chain(), target=replace(HOST, features=features)))
    assert find(cache, key(), HOST) is None
