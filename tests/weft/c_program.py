"""C programs that call a library of Weft's, as a user would write them: compiled, run, read back.

What they are compiled from is the library's own header, with all warnings as errors.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from weft.codegen.c_interface import Field, Interface
from weft.ir.size_arithmetic import evaluate
from weft.runtime.compiled import Compiled
from weft.runtime.library import interface_of, write_library

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
EMULATOR = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
CROSS = shutil.which("aarch64-linux-gnu-gcc")
FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror")
needs_c = pytest.mark.skipif(COMPILER is None, reason="no C compiler: libraries are not run from C")


@dataclass(frozen=True)
class System:
    """What builds a program for a processor, and what runs it there."""

    compiler: str | None
    flags: tuple[str, ...] = ()
    runner: tuple[str, ...] = ()


HERE = System(COMPILER)


def emulated(cpu: str) -> System:
    """An AArch64 processor as QEMU knows it: what it lacks is an illegal instruction."""
    return System(CROSS, ("-static",), (str(EMULATOR), "-cpu", cpu))


_MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "$NAME.h"

/* $BYTES bytes at a multiple of 64, from the file if there is one; none: no address at all. */
static void *array(FILE *file, size_t bytes) {
    if (bytes == 0) return NULL;
    void *at = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (at == NULL || (file != NULL && fread(at, 1, bytes, file) != bytes)) exit(99);
    return at;
}

int main(int count, char **names) {
    if (count != 4) return 98;
    FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
    if (in == NULL || out == NULL) return 97;
    int threads = atoi(names[3]);
$FILL
    size_t bytes = $NAME_workspace_bytes($SIZES threads);
    if (bytes == 0) {
        int refused = $NAME_run($GIVEN threads, array(NULL, 64));
        fprintf(stderr, "%d 0 0 %s", refused, $NAME_message(refused));
        return 0;
    }
    char *workspace = array(NULL, bytes + 64); /* the last 64 show whether it kept within */
    memset(workspace, 0x5A, bytes + 64);
    int status = $NAME_run($GIVEN threads, workspace);
    for (int k = 0; k < 64; k++) if (workspace[bytes + k] != 0x5A) return 96;
    int64_t numbers[2] = {0, 0};
    if (status > 0) memcpy(numbers, workspace, 16);
$WRITE
    fclose(out);
    fprintf(stderr, "%d %lld %lld %s", status, (long long)numbers[0], (long long)numbers[1],
            $NAME_message(status));
    return 0;
}
"""


@dataclass(frozen=True)
class Ran:
    """``arrays``: the outputs and the inputs that are written, by their names in C."""

    status: int
    numbers: tuple[int, int]
    message: str
    arrays: dict[str, np.ndarray]


@dataclass(frozen=True)
class CProgram:
    """A program that calls one library; ``run`` takes arrays and sizes by their names in C."""

    interface: Interface
    folder: Path
    system: System = HERE

    def run(
        self, arrays: Mapping[str, object], sizes: Mapping[str, int] | None = None, threads: int = 1
    ) -> Ran:
        given = dict(sizes or {})
        data = [np.ascontiguousarray(arrays[f.name], f.dtype.numpy) for f in self.interface.inputs]
        (self.folder / "in").write_bytes(
            b"".join(
                [np.int64(given[s.name]).tobytes() for s in self.interface.sizes]
                + [np.int64(a.nbytes).tobytes() + a.tobytes() for a in data]
                + [np.int64(self._bytes(f, given)).tobytes() for f in self.interface.outputs]
            )
        )
        names = [str(self.folder / name) for name in ("main", "in", "out")]
        done = subprocess.run(
            [*self.system.runner, *names, str(threads)], capture_output=True, timeout=60
        )
        assert done.returncode == 0, done.returncode
        status, first, second, message = done.stderr.decode().split(" ", 3)
        arrays = self._results(given, data) if int(status) >= 0 else {}
        return Ran(int(status), (int(first), int(second)), message, arrays)

    def _bytes(self, field: Field, sizes: Mapping[str, int]) -> int:
        """0 for sizes that no array can have, which are to be refused."""
        if not all(0 <= size < 1 << 30 for size in sizes.values()):
            return 0
        return int(np.prod(self._shape(field, sizes))) * field.dtype.itemsize

    def _shape(self, field: Field, sizes: Mapping[str, int]) -> tuple[int, ...]:
        symbols = {s.label: sizes[s.name] for s in self.interface.sizes}
        for name, equation in self.interface.derived:
            symbols.setdefault(name, evaluate(equation, symbols))
        return tuple(evaluate(size, symbols) for size in field.shape)

    def _results(
        self, sizes: Mapping[str, int], data: Sequence[np.ndarray]
    ) -> dict[str, np.ndarray]:
        raw = (self.folder / "out").read_bytes()
        found = {}
        shapes = [(f, self._shape(f, sizes)) for f in self.interface.outputs]
        pairs = zip(self.interface.inputs, data, strict=True)
        shapes += [(f, array.shape) for f, array in pairs if f.written]
        for field, shape in shapes:
            count = int(np.prod(shape)) * field.dtype.itemsize
            found[field.name] = np.frombuffer(raw[:count], field.dtype.numpy).reshape(shape)
            raw = raw[count:]
        assert not raw
        return found


def c_program(
    compiled: Compiled,
    folder: Path,
    name: str | None = None,
    *,
    suffix: str = ".o",
    system: System = HERE,
) -> CProgram:
    """A C program around the library of ``compiled``, in ``folder``."""
    interface = interface_of(compiled, name)
    library = folder / f"{interface.name}{suffix}"
    write_library(compiled, library, header=folder / f"{interface.name}.h", name=interface.name)
    (folder / "main.c").write_text(_text(interface))
    build(folder, "main", [library], *system.flags, compiler=system.compiler)
    return CProgram(interface, folder, system)


def build(
    folder: Path,
    name: str,
    libraries: Sequence[Path],
    *flags: str,
    compiler: str | None = COMPILER,
) -> None:
    """``name``.c in ``folder`` as an executable."""
    assert compiler is not None
    files = [folder / f"{name}.c", *libraries]
    command = [compiler, *FLAGS, f"-I{folder}", "-o", folder / name, *files, *flags]
    command += [f"-Wl,-rpath,{folder}", "-pthread", "-lm"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _text(interface: Interface) -> str:
    groups = {
        "inputs": interface.inputs, "outputs": interface.outputs, "sizes": interface.sizes
    }  # fmt: skip
    there = [group for group, fields in groups.items() if fields]
    fill = [f"    $NAME_{g} {g};" for g in there] + ["    int64_t bytes_of;"]
    write = []
    for field in interface.sizes:
        fill.append(_read(f"sizes.{field.name}"))
    for group in ("inputs", "outputs"):
        for number, field in enumerate(groups[group]):
            at = f"{group}.{field.name}"
            fill.append(_read("bytes_of"))
            if field.by_value:
                fill.append(_read(at))
                continue
            file = "in" if group == "inputs" else "NULL"
            fill.append(f"    {at} = array({file}, (size_t)bytes_of);")
            if field.written:
                fill.append(f"    size_t {group}_{number} = (size_t)bytes_of;")
                write.append((group, f"    fwrite({at}, 1, {group}_{number}, out);"))
    write.sort(key=lambda pair: pair[0] == "inputs")
    text = _MAIN.replace("$FILL", "\n".join(fill))
    text = text.replace("$WRITE", "\n".join(line for _, line in write))
    text = text.replace("$GIVEN", "".join(f"&{group}, " for group in there))
    text = text.replace("$SIZES", "&sizes," if interface.sizes else "")
    return text.replace("$NAME", interface.name)


def _read(place: str) -> str:
    return f"    if (fread(&{place}, sizeof {place}, 1, in) != 1) return 95;"
