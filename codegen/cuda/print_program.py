"""A host program of launches as one CUDA C++ file: prelude, kernels, and the entry point.

The entry point and its companions are those of ``weft/ir/program.py``, on memory of the device:
``inputs``, ``outputs``, ``constants`` and ``arena`` point there, and ``status`` does, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from weft.codegen.c_expressions import Expressions, Scope, Text
from weft.codegen.cuda.print_cuda import CudaKernel, prelude, print_cuda
from weft.codegen.cuda.small_floats import stored_type
from weft.ir.gpu import Gpu
from weft.ir.program import (
    Aligned,
    Arena,
    Constant,
    Input,
    Launch,
    Output,
    Place,
    Program,
)
from weft.ir.scalar_expr import Expr


def print_program(program: Program, gpu: Gpu, sources: Mapping[str, Sequence[str]]) -> str:
    """``program``, whose kernels ``form_launches`` has made; ``sources``: what each of them
    computes, in the user's terms. Raises as ``print_cuda`` does."""
    kernels = {k.name: print_cuda(k, gpu, sources.get(k.name, ())) for k in program.kernels}
    entry = _Entry(program, kernels)
    host = [kernel.host for kernel in kernels.values()] + list(entry.lines())
    helpers = {n: t for k in kernels.values() for n, t in k.helpers.items()}
    helpers |= entry.helpers()
    parts = [
        prelude(),
        *(helpers[name] for name in sorted(helpers)),
        *(kernel.device for kernel in kernels.values()),
        "#ifndef __CUDACC_RTC__",
        *host,
        "#endif",
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


class _Entry:
    """The host functions that callers see."""

    def __init__(self, program: Program, kernels: Mapping[str, CudaKernel]) -> None:
        self.program, self.kernels = program, kernels
        self.expressions = Expressions(_no_element)
        self.scope = Scope({" status": "status", " step": "step"}, {})
        for name in program.parameters:
            self.scope = self.scope.variable(name)

    def helpers(self) -> dict[str, str]:
        made = self.expressions.helpers
        return {n: text.replace("static inline", "WEFT_BOTH") for n, text in made.items()}

    def lines(self) -> Iterator[str]:
        entry = f"weft_{re.sub(r'[^A-Za-z0-9_]', '_', self.program.name)}"
        sizes = [
            f"  const int64_t {self.scope.variables[name]} = parameters[{k}];"
            for k, name in enumerate(self.program.parameters)
        ]
        yield "\n".join(
            [
                f'extern "C" int64_t {entry}_arena(const int64_t *parameters, int32_t) {{',
                *sizes,
                f"  return {self._text(self.program.arena)};",
                "}",
            ]
        )
        yield f'extern "C" int32_t {entry}_threads(const int64_t *, int32_t) {{ return 1; }}'
        yield "\n".join(
            [
                f"static void steps_{entry}(",
                "    void **inputs, void **outputs, void **constants, char *arena,",
                "    const int64_t *parameters, int64_t *status) {",
                *sizes,
                *(f"  {line}" for line in self._steps()),
                "}",
            ]
        )
        yield "\n".join(
            [
                f'extern "C" int32_t {entry}(',
                "    void **inputs, void **outputs, void **constants, void *arena,",
                "    const int64_t *parameters, int64_t *status, int32_t) {",
                "  return device_steps(",
                f"      steps_{entry}, inputs, outputs, constants, (char *)arena,",
                "      parameters, status);",
                "}",
            ]
        )

    def _steps(self) -> Iterator[str]:
        for number, step in enumerate(self.program.steps):
            yield from self._step(number, step)

    def _step(self, number: int, step: Launch) -> Iterator[str]:
        places = {b.name: b.place for b in self.program.buffers}
        kernel = next(k for k in self.program.kernels if k.name == step.kernel)
        given = step.parameters
        values = kernel.parameters if given is None else given
        passed = ["status", str(number)]
        passed += [self.scope.variables[v] if isinstance(v, str) else self._text(v) for v in values]
        for name, formal in zip(step.arguments, kernel.buffers, strict=True):
            kind = ("" if formal.writable else "const ") + stored_type(formal.dtype)
            passed.append(f"({kind} *){self._place(places[name])}")
        yield f"run_{self.kernels[step.kernel].name}("
        yield ",\n".join(f"    {argument}" for argument in passed).replace("\n", "\n  ") + ");"

    def _place(self, place: Place) -> str:
        match place:
            case Input(k):
                return f"inputs[{k}]"
            case Output(k):
                shared = dict(self.program.in_place)
                return f"inputs[{shared[k]}]" if k in shared else f"outputs[{k}]"
            case Constant(name):
                names = [b.name for b in self.program.constants]
                return f"constants[{names.index(name)}]"
            case Arena(offset):
                return f"(arena + {self._text(offset, 13)})"
            case Aligned():
                raise AssertionError("no kernel of a GPU asks for aligned inputs")

    def _text(self, expr: Expr, level: int = 0) -> str:
        return self.expressions.text(expr, self.scope, level)


def _no_element(name: str, indices: list[Text], scope: Scope) -> Text:
    raise AssertionError("sizes read no memory")
