"""A compiled program for a GPU → a ``.cu`` that a person can take away, with a main that checks it.

    NAME.cu     prelude, kernels, host functions, main: nvcc -arch=sm_90a NAME.cu && ./a.out
    NAME.bin    its constants, where there are any

Inputs follow from a formula; what the results are at a few hundred places, the twin says here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.codegen.c_expressions import c_type
from weft.codegen.cuda.print_cuda import launcher
from weft.ir.errors import ArtifactError
from weft.ir.size_arithmetic import SizeError, evaluate
from weft.runtime.compiled import ArraySpec, Compiled
from weft.runtime.files import write_atomically

Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]
SAMPLES = 256
BOUND = 1e-3  # of the largest: sums have other orders on a GPU, and functions other roundings


def write_cuda(program: Compiled, run: Run, path: Path) -> None:
    """Write ``program`` to ``path``, and its constants beside it; ``run`` runs its twin.

    Raises ``ArtifactError``: WEFT-E0715 where its sizes are not known, or it works in place;
    E0700 where a file cannot be written.
    """
    sized = _Sized(program)
    inputs = {s.name: given(k, s, sized.shape(s)) for k, s in enumerate(program.inputs)}
    results = run(inputs)
    text = program.source("cuda") + "\n" + launcher() + "\n" + sized.main(path, results)
    constants = [np.ascontiguousarray(array).tobytes() for _, array in program.constants]
    try:
        write_atomically(path, [text.encode()])
        if constants:
            write_atomically(path.with_suffix(".bin"), constants)
    except OSError as error:
        raise ArtifactError(
            "WEFT-E0700",
            "the kernels cannot be written",
            where=str(path),
            why=error.strerror or str(error),
            hint="name a file in a folder that is there and that you may write to",
        ) from None


def given(number: int, spec: ArraySpec, shape: Sequence[int]) -> np.ndarray:
    """What ``launcher.hpp`` draws for input ``number``."""
    with np.errstate(over="ignore"):
        z = np.arange(int(np.prod(shape)), dtype=np.uint64) + (np.uint64(number) << np.uint64(40))
        z *= np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    values = (z >> np.uint64(40)) / 8388608.0 - 1.0 if spec.dtype.is_float else z & np.uint64(1)
    return values.astype(spec.dtype.numpy).reshape(tuple(shape))


@dataclass(frozen=True, slots=True)
class _Sized:
    """``program`` with all of its sizes known."""

    program: Compiled

    def shape(self, spec: ArraySpec) -> tuple[int, ...]:
        try:
            return tuple(int(evaluate(size, {})) for size in spec.shape)
        except (SizeError, KeyError):
            raise ArtifactError(
                "WEFT-E0715",
                f"a program that checks itself needs all sizes, and {spec.name} has others",
                hint="give them: --shape, or constants in the program",
            ) from None

    def main(self, path: Path, results: dict[str, np.ndarray]) -> str:
        program = self.program
        if program.in_place:
            raise ArtifactError(
                "WEFT-E0715",
                "a program that works in place cannot check itself",
                hint='take its text: source("cuda")',
            )
        entry = program.entry
        lines = ["int main() {", "  static const int64_t parameters[] = {0};"]
        lines.append(f"  char *arena = (char *)poisoned({entry}_arena(parameters, 1));")
        lines.append("  int64_t *status = (int64_t *)device_new(4 * sizeof(int64_t));")
        made = [
            f"input<{c_type(s.dtype)}>({k}, {_count(self.shape(s))})"
            for k, s in enumerate(program.inputs)
        ]
        lines += _array("inputs", made)
        lines += _array(
            "outputs",
            [f"poisoned({_count(self.shape(s)) * s.dtype.itemsize})" for s in program.outputs],
        )
        sizes = [array.nbytes for _, array in program.constants]
        if sizes:
            lines.append(f'  FILE *file = fopen("{path.with_suffix(".bin").name}", "rb");')
        lines += _array("constants", [f"constant(file, {size})" for size in sizes])
        lines.append(
            f"  int code = {entry}(inputs, outputs, constants, arena, parameters, status, 1);"
        )
        lines.append('  if (code != 0) return fprintf(stderr, "it failed: %d\\n", code), 1;')
        lines.append("  int good = 1;")
        for k, spec in enumerate(program.outputs):
            lines += _compared(k, spec, results[spec.name])
        return "\n".join([*lines, "  return !good;", "}", ""])


def _count(shape: Sequence[int]) -> int:
    return int(np.prod(shape))


def _array(name: str, values: Sequence[str]) -> list[str]:
    """An array of pointers, filled one after the other."""
    lines = [f"  void *{name}[{len(values) + 1}];"]
    return lines + [f"  {name}[{k}] = {value};" for k, value in enumerate(values)]


def _compared(number: int, spec: ArraySpec, result: np.ndarray) -> list[str]:
    flat = result.reshape(-1).astype(np.float64)
    places = np.unique(np.linspace(0, max(0, flat.size - 1), SAMPLES).astype(int))[: flat.size]
    if not places.size:
        return []
    values = ", ".join(_number(float(v)) for v in flat[places])
    return [
        f"  static const uint64_t places{number}[] = {{{', '.join(map(str, places))}}};",
        f"  static const double expected{number}[] = {{{values}}};",
        f'  good &= agrees<{c_type(spec.dtype)}>("{spec.name}", outputs[{number}], {flat.size},',
        f"                 places{number}, expected{number}, {places.size}, {BOUND});",
    ]


def _number(value: float) -> str:
    if np.isnan(value):
        return "NAN"
    return repr(value) if np.isfinite(value) else ("INFINITY" if value > 0 else "-INFINITY")
