"""Merged objects do what their parts do together, as LLVM's own linker finds."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest

from weft.codegen.llvm.target import host_target, to_object
from weft.codegen.objects.merge_objects import Blob, merge_objects
from weft.codegen.objects.native_library import link_by_llvm as link
from weft.ir.errors import InternalError

CALLER = """
declare i64 @callee(i64)
define i64 @caller(i64 %x) {
  %y = call i64 @callee(i64 %x)
  %z = add i64 %y, 1
  ret i64 %z
}
"""
# A table of constants, a variable, zeroed memory, and a pointer to the function itself.
CALLEE = """
@table = internal constant [3 x i64] [i64 10, i64 20, i64 30], align 64
@count = internal global i64 5
@zeros = internal global [100 x i64] zeroinitializer
@self = internal constant ptr @callee
define i64 @callee(i64 %x) {
  %at = getelementptr [3 x i64], ptr @table, i64 0, i64 %x
  %value = load i64, ptr %at
  %n = load i64, ptr @count
  %m = add i64 %n, 1
  store i64 %m, ptr @count
  %zero.at = getelementptr [100 x i64], ptr @zeros, i64 0, i64 %x
  %zero = load i64, ptr %zero.at
  %a = add i64 %value, %n
  %b = add i64 %a, %zero
  ret i64 %b
}
define ptr @whoami() {
  %p = load volatile ptr, ptr @self
  ret ptr %p
}
"""
DATA = """
@first = external hidden constant i8
@second = external hidden constant i8
@places = internal constant [2 x ptr] [ptr @first, ptr @second]
define ptr @place(i64 %k) {
  %at = getelementptr [2 x ptr], ptr @places, i64 0, i64 %k
  %p = load ptr, ptr %at
  ret ptr %p
}
"""
I64 = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
PLACE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)


def _objects(*texts: str) -> list[bytes]:
    return [to_object(text, host_target()) for text in texts]


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _merged(texts, exports, blobs=()) -> bytes:
    return b"".join(bytes(p) for p in merge_objects(_objects(*texts), _same(*exports), blobs))


@pytest.mark.parametrize("texts", [(CALLER, CALLEE), (CALLEE, CALLER)])
def test_calls_and_data(texts) -> None:
    tracker = link([_merged(texts, {"caller", "callee", "whoami"})], ["caller", "callee"], {})
    caller = I64(tracker["caller"])
    assert [caller(k) for k in (0, 1, 2)] == [16, 27, 38]  # 10 + 5 + 1, 20 + 6 + 1, 30 + 7 + 1


def test_pointers_to_functions() -> None:
    tracker = link([_merged([CALLEE], {"callee", "whoami"})], ["callee", "whoami"], {})
    assert PLACE(tracker["whoami"])(0) == int(tracker["callee"])


def test_what_is_merged_merges_again() -> None:
    again = b"".join(
        bytes(p)
        for p in merge_objects([_merged([CALLEE], {"callee"}), *_objects(CALLER)], _same("caller"))
    )
    tracker = link([again], ["caller"], {})
    assert I64(tracker["caller"])(2) == 36


def test_two_results_share_no_names() -> None:
    """Each keeps its own ``callee`` and counts for itself."""
    other = CALLER.replace("@caller", "@other")
    parts = [_merged([CALLER, CALLEE], {"caller"}), _merged([other, CALLEE], {"other"})]
    tracker = link(parts, ["caller", "other"], {})
    caller, other_ = I64(tracker["caller"]), I64(tracker["other"])
    assert (caller(0), caller(0), other_(0)) == (16, 17, 16)
    with pytest.raises(RuntimeError):
        link(parts[:1], ["callee"], {})


def test_new_names_hide_nothing() -> None:
    """What is called ``other`` outside is not what was called so inside."""
    other = CALLER.replace("@caller", "@other").replace(", 1", ", 100")
    pieces = merge_objects(_objects(CALLER, CALLEE, other), {"caller": "other"})
    tracker = link([b"".join(map(bytes, pieces))], ["other"], {})
    assert I64(tracker["other"])(0) == 16


@pytest.mark.parametrize("sizes", [(0, 0), (1, 5), (64, 4097), (100_000, 1)])
def test_blobs_lie_where_their_symbols_say(sizes) -> None:
    data = [bytes(k % 251 for k in range(size)) for size in sizes]
    blobs = [Blob("first", data[0]), Blob("second", memoryview(data[1]), 256)]
    tracker = link([_merged([DATA], {"place"}, blobs)], ["place"], {})
    place = PLACE(tracker["place"])
    for number, (content, alignment) in enumerate(zip(data, (64, 256), strict=True)):
        at = place(number)
        assert at % alignment == 0
        assert ctypes.string_at(at, len(content)) == content


def test_blobs_are_handed_on_as_they_are() -> None:
    data = memoryview(bytes(1000))
    pieces = merge_objects(
        _objects(DATA), _same("place"), [Blob("first", data), Blob("second", b"")]
    )
    assert any(piece is data for piece in pieces)


def test_much_data_is_kept_out_of_the_way(monkeypatch) -> None:
    if not host_target().triple.startswith("x86_64"):
        pytest.skip("only x86-64 has sections for that")
    monkeypatch.setattr("weft.codegen.objects.merge_objects.FAR", 99)
    code = _merged([DATA], {"place"}, [Blob("first", bytes(100)), Blob("second", b"")])
    assert b".lrodata\0" in code
    tracker = link([code], ["place"], {})
    assert ctypes.string_at(PLACE(tracker["place"])(0), 100) == bytes(100)


def test_other_tools_read_it(tmp_path) -> None:
    tool = shutil.which("readelf")
    if tool is None:
        pytest.skip("no readelf here")
    (tmp_path / "m.o").write_bytes(_merged([CALLER, CALLEE], {"caller"}))
    command = [tool, "--wide", "--all", str(tmp_path / "m.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    assert "warning" not in (done.stdout + done.stderr).lower()


@pytest.mark.parametrize(
    ("objects", "exports", "why"),
    [
        ([b""], set(), "no ELF file"),
        ([b"\x7fELF\x02\x01\x01" + bytes(60)], set(), "no object code"),
        ([b"MZ" + bytes(100)], set(), "no ELF file"),
        (_objects(CALLEE, CALLEE), {"callee"}, "defined twice"),
        (_objects(CALLER), {"caller", "other"}, "nobody defines ['other']"),
        (_objects(CALLER), {"callee"}, "nobody defines ['callee']"),
    ],
)
def test_what_cannot_be_merged(objects, exports, why) -> None:
    with pytest.raises(InternalError, match="WEFT-E0580") as caught:
        list(merge_objects(objects, _same(*exports)))
    assert why in caught.value.why


def test_truncated_objects_are_refused() -> None:
    (code,) = _objects(CALLEE)
    for size in range(0, len(code), 7):
        with pytest.raises(InternalError, match="WEFT-E0580"):
            list(merge_objects([code[:size]], _same("callee")))
