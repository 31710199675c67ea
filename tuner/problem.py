"""Problems: what is tuned. The statements of a loop kernel, or of one cluster of a graph, with a
call of them to time; small enough to send to where it is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from weft.driver.compiler import compile_cluster, compile_kernel
from weft.driver.options import Options
from weft.frontend.loops.lower import LoopKernel
from weft.frontend.loops.signature import Argument, Kind
from weft.ir.dtypes import DType
from weft.ir.encoding import Encoding
from weft.ir.plan import Value
from weft.ir.scalar_expr import Expr, Literal
from weft.ir.scop import Scop, Tensor
from weft.ir.size_arithmetic import bind, evaluate
from weft.runtime.certificate import encoding_with
from weft.runtime.executable import Executable
from weft.runtime.records import scop_key

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Port:
    """An argument of a loop kernel: the Scop's ``tensor`` of it, '' for a number."""

    name: str
    kind: Kind
    dtype: DType
    shape: tuple[Expr, ...]
    tensor: str


@dataclass(frozen=True)
class Problem:
    """``scop`` for the values ``sizes`` of its parameters. ``ports``: the arguments of a loop
    kernel in order; () for a cluster, whose inputs, constants and outputs are the Scop's."""

    scop: Scop
    ports: tuple[Port, ...]
    sizes: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        return self.scop.name

    @cached_property
    def data(self) -> bytes:
        """All of it as bytes, from which ``Problem.read`` makes it again."""
        return _encoding().encode(self)

    @staticmethod
    def read(data: bytes) -> Problem:
        """Raises one of ``encoding.MALFORMED`` for other bytes."""
        return _encoding().decode(data, Problem)

    @cached_property
    def family(self) -> str:
        """The same for all sizes, and whatever things are called: what no size of it decides."""
        shapes = tuple(_open(t) for t in self.scop.tensors)
        statements = tuple(replace(s, domain=()) for s in self.scop.statements)
        return scop_key(
            replace(self.scop, context=(), derived=(), tensors=shapes, statements=statements)
        )

    def compiled(self, options: Options, plan: Mapping[str, Value]) -> Executable:
        """The program, by the decisions of ``plan``. Raises as ``weft.compile`` does."""
        if self.ports:
            return compile_kernel(self.kernel, options, None, plan)
        return compile_cluster(self.scop, self.constants(), options, plan)

    @property
    def kernel(self) -> LoopKernel:
        arguments = tuple(Argument(p.name, p.kind, p.dtype, p.shape) for p in self.ports)
        return LoopKernel(self.scop, arguments, {p.name: p.tensor for p in self.ports if p.tensor})

    def constants(self) -> dict[str, np.ndarray]:
        """Made-up data for the constants of a cluster, by tensor."""
        random = np.random.default_rng(1)
        found = (t for t in self.scop.tensors if t.role == "constant")
        return {t.name: made_up(random, t.dtype, self._shape(t.shape)) for t in found}

    def arrays(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Made-up arguments of a call, by name, the same for the same ``seed``."""
        random = np.random.default_rng(seed)
        sizes = dict(self.sizes)
        if not self.ports:
            found = [t for t in self.scop.tensors if t.role in ("input", "inout")]
            return {t.name: made_up(random, t.dtype, self._shape(t.shape)) for t in found}
        return {
            p.name: np.asarray(sizes[p.name], p.dtype.numpy)
            if p.name in sizes
            else made_up(random, p.dtype, self._shape(p.shape))
            for p in self.ports
        }

    def _shape(self, shape: Sequence[Expr]) -> tuple[int, ...]:
        return tuple(int(evaluate(n, dict(self.sizes))) for n in shape)


def problem_of_kernel(kernel: LoopKernel, arrays: Arrays) -> Problem:
    """The problem of calling ``kernel`` with ``arrays``, by name. Raises ``SizeError`` where shapes
    contradict each other."""
    tensors = kernel.tensors
    ports = tuple(
        Port(a.name, a.kind, a.dtype, a.shape, tensors.get(a.name, a.name) if a.shape else "")
        for a in kernel.arguments
    )
    numbers = {p.name: int(arrays[p.name]) for p in ports if p.kind == "parameter"}
    shaped = [p for p in ports if p.shape]
    sizes = bind(
        [p.shape for p in shaped],
        [np.shape(arrays[p.name]) for p in shaped],
        known=numbers,
        names=[p.name for p in shaped],
    )
    return Problem(kernel.scop, ports, tuple(sorted(sizes.items())))


def _open(tensor: Tensor) -> Tensor:
    shape = tuple(Literal(0, n.dtype) if isinstance(n, Literal) else n for n in tensor.shape)
    return replace(tensor, shape=shape)


def made_up(random: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers without denormals, infinities or a sign: whatever the statements do with them, they
    take the time that numbers usually take. Integers are small, for those that are indices."""
    if dtype.is_float:
        return (0.1 + 0.9 * random.random(shape)).astype(dtype.numpy)
    return random.integers(0, 2, shape).astype(dtype.numpy)


@cache
def _encoding() -> Encoding:
    return encoding_with((Problem, Port))
