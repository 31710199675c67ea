"""The same loops in C: printed in the order that the user wrote them, compiled by gcc or clang."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.benchmarks.polybench.benchmark import Arguments
from weft.codegen.c_printer import fix_parameters, print_c
from weft.codegen.from_schedule import build_kernel
from weft.ir.loop_ir import Buffer, Kernel
from weft.ir.scalar_affine import to_affine
from weft.ir.scop import Scop
from weft.polyhedral.transform.initial import initial

FAST = ("-O3", "-march=native", "-ffast-math")  # as users of the suite compile it
PLAIN = ("-O1", "-fwrapv", "-ffp-contract=off")  # every operation as it is written
ALIGNMENT = 64  # bytes, of every array
_NEWEST = 40  # version of a compiler that is looked for


@dataclass(frozen=True, slots=True)
class CProgram:
    """A compiled kernel for one set of sizes; calling it works on the arguments in place."""

    text: str
    buffers: tuple[Buffer, ...]
    run: Callable[..., None]

    def bound(self, arguments: Mapping[str, Any]) -> Callable[[], None]:
        """A call without arguments, for timing."""
        given = [_argument(buffer, arguments[buffer.name]) for buffer in self.buffers]
        return lambda: self.run(*given)


def compilers() -> dict[str, str]:
    """The C compilers of this machine, by name; where only versions are installed, the newest."""
    found: dict[str, str] = {}
    for name in ("gcc", "clang"):
        versions = (f"{name}-{version}" for version in range(_NEWEST, 8, -1))
        path = next(filter(None, map(shutil.which, (name, *versions))), None)
        if path is not None:
            found[name] = path
    return found


def published_loops(scop: Scop, sizes: Mapping[str, int]) -> Kernel:
    """``scop`` in its textual order at ``sizes``, its temporaries local variables and arrays."""
    tensors = tuple(
        replace(t, scope="local") if t.role == "temp" and t.scope == "global" else t
        for t in scop.tensors
    )
    scheduled = initial(replace(scop, tensors=tensors))
    kernel = build_kernel(scheduled.scop, scheduled.tree, scop.name)
    aligned = tuple(replace(b, alignment=ALIGNMENT) for b in kernel.buffers)
    return fix_parameters(replace(kernel, buffers=aligned), sizes)


def sizes_of(scop: Scop, arguments: Mapping[str, Any]) -> dict[str, int]:
    """The parameters of ``scop`` in a call with ``arguments``, off the affine shapes of arrays."""
    found = {name: int(arguments[name]) for name in scop.parameters if name in arguments}
    shapes = [(t.shape, np.shape(arguments[t.name])) for t in scop.tensors if t.name in arguments]
    sizes = [pair for shape, lengths in shapes for pair in zip(shape, lengths, strict=True)]
    forms = [(form, n) for size, n in sizes if (form := to_affine(size)) is not None]
    for _ in scop.parameters:  # each round finds at least one more
        for form, length in forms:
            rest, unknown = length - form.constant, []
            for term, factor in form.terms:
                if isinstance(term, str) and term in found:
                    rest -= factor * found[term]
                else:
                    unknown.append((term, factor))
            match unknown:
                case [(str(name), factor)]:
                    found[name] = rest // factor
    return found


def compile_c(
    scop: Scop, sizes: Mapping[str, int], compiler: str, flags: tuple[str, ...], folder: Path
) -> CProgram:
    """The loops of ``scop`` at ``sizes``, built in ``folder``.

    Raises ``RuntimeError`` with the words of a compiler that fails.
    """
    kernel = published_loops(scop, sizes)
    text = print_c(kernel)
    number = len(list(folder.iterdir()))
    source = folder / f"{kernel.name}_{number}.c"
    source.write_text(text)
    library, part = source.with_suffix(".so"), source.with_suffix(".o")
    # Linked without these flags: -ffast-math would add code that makes the whole process, NumPy and
    # Weft in it, take numbers near zero for zero.
    for command in (
        [compiler, *flags, "-fPIC", "-c", "-o", str(part), str(source)],
        [compiler, "-shared", "-o", str(library), str(part), "-lm"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    function = getattr(ctypes.CDLL(str(library)), f"kernel_{kernel.name}")
    function.restype = None
    return CProgram(text, kernel.buffers, function)


def unscheduled(scop: Scop, compiler: str, folder: Path) -> Callable[[Arguments], None]:
    """The published loops on arguments of any size, every operation as it is written."""
    known: dict[tuple[tuple[str, int], ...], CProgram] = {}

    def run(arguments: Arguments) -> None:
        sizes = sizes_of(scop, arguments)
        key = tuple(sizes.items())
        if key not in known:
            known[key] = compile_c(scop, sizes, compiler, PLAIN, folder)
        known[key].bound(arguments)()

    return run


def aligned_copy(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``array`` in memory of its own that starts at a multiple of ``ALIGNMENT``."""
    raw = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    flat = raw[start : start + array.nbytes].view(array.dtype)
    copy: np.ndarray[Any, Any] = flat.reshape(array.shape)
    copy[...] = array
    return copy


def _argument(buffer: Buffer, value: Any) -> object:
    if buffer.shape or buffer.writable:
        return ctypes.c_void_p(value.ctypes.data)
    return np.ctypeslib.as_ctypes_type(buffer.dtype.numpy)(value)
