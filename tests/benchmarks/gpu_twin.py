"""The launcher of a bundle without a GPU: a driver that is none, and the twins of kernels as the
shared objects that it loads for cubins. Arguments, launches and checks are the launcher's own."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from weft.codegen.cuda.nvrtc import Cubin, KernelUse
from weft.codegen.cuda.twin import twin_compiler, twin_object

# Behind the kernels of a text: how the driver runs each from an array of places of arguments.
_ENTRIES = """
#include <utility>
struct fake_kernel { int (*run)(int64_t, int64_t, int64_t, void **); int64_t count, allowed; };
template <class... A, size_t... I> static void fake_call(
    void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
  kernel(*(A *)arguments[I]...);
}
template <class... A> static int fake_run(
    void (*kernel)(A...), int64_t blocks, int64_t threads, int64_t bytes, void **arguments) {
  int64_t status[4] = {0, 0, 0, 0};
  fake_result = 0;
  twin.random = WEFT_SEED;
  twin.stacks = (char *)malloc((size_t)TWIN_THREADS * TWIN_STACK);
  twin_launch(status, blocks, threads, bytes, [&] {
    fake_call(kernel, arguments, std::index_sequence_for<A...>());
  });
  free(twin.stacks);
  return fake_result ? fake_result : status[1] ? 719 : 0;
}
template <class... A> constexpr int64_t fake_count(void (*)(A...)) { return sizeof...(A); }
"""
_ENTRY = """extern "C" fake_kernel fake_NAME = {
    [](int64_t blocks, int64_t threads, int64_t bytes, void **arguments) {
      return fake_run(NAME, blocks, threads, bytes, arguments);
    }, fake_count(NAME), 0};
"""


def fake_driver(folder: Path) -> Path:
    """The driver's library, in ``folder``."""
    source, made = Path(__file__).parent / "fake_driver.cpp", folder / "libfake.so"
    command = [twin_compiler(), "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(made)]
    subprocess.run([*command, "-ldl"], check=True)
    return made


def assemble_twin(texts: Sequence[tuple[str, str]]) -> list[Cubin]:
    """What the fake driver takes for code."""
    return [shared_object(text) for text, _ in texts]


def shared_object(text: str) -> Cubin:
    names = re.findall(r"^WEFT_KERNEL\(\d+\) (\w+)\(", text, re.MULTILINE)
    entries = "".join(_ENTRY.replace("NAME", name) for name in names)
    # Kernels that are broken on purpose say what they end in.
    whole = f"static int fake_result;\n{text}{_ENTRIES}{entries}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "twin.o").write_bytes(twin_object(whole))
        command = [twin_compiler(), "-shared", "twin.o", "-o", "twin.so"]
        subprocess.run(command, cwd=folder, check=True)
        code = (Path(folder) / "twin.so").read_bytes()
    return Cubin(code, tuple(KernelUse(name, 0, 0, 0) for name in names))
