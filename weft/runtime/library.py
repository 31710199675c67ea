"""A compiled program → a library for C programs: one object file or shared library, one header.

interface      names and structs for C                       codegen/c_interface.py
objects        the program's own, the thread pool, the interface's functions
merge          one object file, constants embedded           codegen/objects/merge_objects.py
link           a shared library of it, where asked for       weft/runtime/library.py
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from errno import EISDIR
from os import strerror
from pathlib import Path

import numpy as np

from weft.codegen.c_header import c_header
from weft.codegen.c_interface import Field, Interface, Result, identifier, identifiers
from weft.codegen.llvm.interface import emit_interface, exports
from weft.codegen.llvm.processor import plain
from weft.codegen.llvm.runtime import runtime_ir
from weft.codegen.llvm.target import LlvmTarget, host_target, to_object
from weft.codegen.objects.merge_objects import Blob, merge_objects
from weft.ir.dtypes import int64
from weft.ir.errors import ArtifactError
from weft.runtime.compiled import ArraySpec, Compiled
from weft.runtime.files import TEMPORARY, write_atomically, written_beside


def write_library(
    compiled: Compiled, path: Path, *, header: Path | None = None, name: str | None = None
) -> None:
    """Write ``compiled`` to ``path``: an object file (``.o``), or a shared library (``.so``).

    ``header``: where its C header goes. ``name``: what its functions' names start with; by default
    made from the program's own. Both are written beside their places before either is renamed: an
    error leaves what was there. Raises ``ArtifactError``: WEFT-E0711 for another suffix or a name
    that is no C identifier, E0712 for a target that it cannot be made for, E0713 where there is no
    linker, E0714 where that fails, E0700 where a file cannot be written.
    """
    if path.suffix not in (".o", ".so"):
        raise ArtifactError(
            "WEFT-E0711",
            f"{path.name!r} is neither an object file nor a shared library",
            hint="write to NAME.o or NAME.so",
        )
    interface = interface_of(compiled, name)
    merged = library_object(compiled, name)
    with ExitStack() as held:
        made: list[tuple[str, Path, Path]] = []
        with _writing("library", path):
            triple = compiled.target.triple
            written = held.enter_context(_library_beside(path, merged, interface.name, triple))
            made.append(("library", path, written))
        if header is not None:
            with _writing("header", header):
                declared = [c_header(interface).encode()]
                written = held.enter_context(written_beside(header, declared))
                made.append(("header", header, written))
        for what, place, written in made:
            with _writing(what, place):
                written.replace(place)


@contextmanager
def _writing(what: str, path: Path) -> Iterator[None]:
    """Whatever the system says meanwhile is about ``path``, not the temporary file beside it."""
    try:
        if path.is_dir():  # renaming would say so too late: after the other file
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        yield
    except OSError as error:
        raise ArtifactError(
            "WEFT-E0700",
            f"the {what} cannot be written",
            where=str(path),
            why=error.strerror or str(error),
            hint="name a file in a folder that is there and that you may write to",
        ) from None


@contextmanager
def _library_beside(
    path: Path, merged: Iterable[bytes | memoryview], name: str, triple: str
) -> Iterator[Path]:
    """The library of the object file ``merged``, in a temporary place of ``path``'s folder."""
    if path.suffix == ".o":
        with written_beside(path, merged) as written:
            yield written
        return
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=TEMPORARY) as folder:
        code, linked = Path(folder) / f"{name}.o", Path(folder) / path.name
        write_atomically(code, merged)
        link_shared(code, linked, triple)
        yield linked


def library_object(compiled: Compiled, name: str | None = None) -> Iterator[bytes | memoryview]:
    """The object file, in pieces. Raises ``ArtifactError`` as ``write_library`` does."""
    interface, target = interface_of(compiled, name), compiled.target
    pool = compiled.pool or to_object(_runtime(target), target)
    functions = to_object(emit_interface(interface, target), plain(target))
    objects = [*compiled.objects, pool, functions]
    return merge_objects(objects, exports(interface), _blobs(compiled))


def interface_of(compiled: Compiled, name: str | None = None) -> Interface:
    """What C programs see of ``compiled``. Raises ``ArtifactError`` (WEFT-E0711)."""
    chosen = identifier(compiled.name) if name is None else name
    if identifier(chosen) != chosen:
        raise ArtifactError(
            "WEFT-E0711",
            f"names cannot start with {chosen!r}",
            why="it is no C identifier, or C, C++ or a usual macro means something else by it",
            hint=f"{identifier(chosen)}, say",
        )
    determined = {n for n, _ in compiled.derived}
    numbers = [compiled.inputs[k].name for k in compiled.scalars]
    symbols = [p for p in compiled.parameters if p not in determined and p not in numbers]
    labels = [*numbers, *symbols]
    pairs = zip(identifiers(labels), labels, strict=True)
    sizes = tuple(Field(each, label, int64, by_value=True) for each, label in pairs)
    in_place = {pair.output: pair for pair in compiled.in_place}
    written = {pair.input for pair in compiled.in_place}
    inputs = [k for k in range(len(compiled.inputs)) if k not in compiled.scalars]
    outputs = [k for k in range(len(compiled.outputs)) if k not in in_place]
    places = {k: number for number, k in enumerate(inputs)}
    places |= {k: -1 - number for number, k in enumerate(compiled.scalars)}
    return Interface(
        name=chosen,
        title=compiled.name,
        entry=compiled.entry,
        inputs=_fields([compiled.inputs[k] for k in inputs], [k in written for k in inputs]),
        outputs=_fields([compiled.outputs[k] for k in outputs], [True] * len(outputs)),
        sizes=sizes,
        arguments=tuple(places[k] for k in range(len(compiled.inputs))),
        results=tuple(
            Result(places[pair.input], in_place=True, copied=not pair.shared)
            if (pair := in_place.get(k)) is not None
            else Result(outputs.index(k))
            for k in range(len(compiled.outputs))
        ),
        parameters=compiled.parameters,
        derived=compiled.derived,
        guards=tuple((guard.condition, guard.text) for guard in compiled.guards),
        checks=compiled.checks,
        constants=len(compiled.constants),
        signed=frozenset(numbers),
    )


def _fields(specs: Sequence[ArraySpec], written: Sequence[bool]) -> tuple[Field, ...]:
    names = identifiers(spec.name for spec in specs)
    return tuple(_field(*each) for each in zip(names, specs, written, strict=True))


def _field(name: str, spec: ArraySpec, written: bool) -> Field:
    natural = spec.dtype.itemsize
    by_value = not spec.shape and not written and spec.alignment <= natural
    return Field(
        name, spec.name, spec.dtype, spec.shape, max(spec.alignment, natural), by_value, written
    )


def _runtime(target: LlvmTarget) -> str:
    try:
        return runtime_ir(target.triple)
    except KeyError:
        raise ArtifactError(
            "WEFT-E0712",
            f"there are no libraries for {target.triple}",
            why="their threads are those of Linux on x86-64, AArch64 or RISC-V",
        ) from None


def _blobs(compiled: Compiled) -> list[Blob]:
    arrays = [np.ascontiguousarray(array) for _, array in compiled.constants]
    return [
        Blob(f"weft_constant_{k}", a.reshape(-1).view(np.uint8).data) for k, a in enumerate(arrays)
    ]


# ---- Shared libraries by whatever linker there is: ld, lld, a C compiler, or the ziglang wheel.


SECONDS = 300.0  # zig builds its own C library first

# What is running in a pool of threads must stay where it is.
_FLAGS = ("-z", "nodelete", "-z", "noexecstack")


def link_shared(code: Path, path: Path, triple: str) -> None:
    """Make the shared library ``path`` of the object file ``code``, for ``triple``.

    It needs libc and, where the code calls that, libm. Raises ``ArtifactError``: WEFT-E0713 where
    no linker is found, E0714 with the linker's own words where none of them can do it.
    """
    said: list[str] = []
    for command in commands(code, path, triple):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said.append(f"{command[0]}: {error}")
            continue
        if done.returncode == 0 and path.is_file():
            return
        said.append(f"{command[0]}: {' '.join(done.stderr.split())[-500:]}")
    if said:
        raise ArtifactError(
            "WEFT-E0714",
            f"{path.name} cannot be linked",
            why="; ".join(said),
            hint="write an object file (.o), which needs no linker",
        )
    raise ArtifactError(
        "WEFT-E0713",
        f"there is no linker for {triple} to make {path.name}",
        why="neither a C compiler, nor ld, nor ld.lld, nor the ziglang wheel is here",
        hint="write an object file (.o), which needs none, or pip install ziglang",
    )


def commands(code: Path, path: Path, triple: str) -> Iterator[list[str]]:
    """How each linker here is called, the best first."""
    files = ["-o", str(path), str(code)]
    name = f"-soname={path.name}"
    machine, host = triple.split("-")[0], host_target().triple.split("-")[0]
    prefixes = [f"{machine}-linux-gnu-"] + ([""] if machine == host else [])
    passed = ["-shared", _through(*_FLAGS), _through(name)]
    flags = ["-shared", *_FLAGS, name]
    for prefix in prefixes:
        for compiler in (f"{prefix}cc", f"{prefix}gcc", f"{prefix}clang"):
            if found := shutil.which(compiler):
                yield [found, "-nostartfiles", *passed, *files, _through("--as-needed"), "-lm"]
        if found := shutil.which(f"{prefix}ld"):
            # By their whole names: these are there without a C compiler's files, too.
            yield [found, *flags, *files, "--as-needed", "-l:libc.so.6", "-l:libm.so.6"]
    if importlib.util.find_spec("ziglang") is not None:
        zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu"]
        yield [*zig, *passed, *files, "-lc", "-lm"]
    if found := shutil.which("ld.lld"):
        # It does not look for libraries by itself: the program that loads this one brings libc.
        yield [found, *flags, *files]


def _through(*flags: str) -> str:
    return ",".join(("-Wl", *flags))
