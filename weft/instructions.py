"""Instructions as users describe them, and which of a program's loops they compute.

@weft.instruction(emit=weft.Intrinsic("llvm.x86.avx512.vpdpbusd.512", ("acc", "a", "b")))
def vpdpbusd(acc: weft.i32[16], a: weft.u8[4], b: weft.i8[16, 4]):
    for lane in range(16):
        for q in range(4):
            acc[lane] += weft.i32(a[q]) * weft.i32(b[lane, q])

print(weft.map_instruction(my_kernel, vpdpbusd))
my_kernel.compile(options=weft.Options(instructions=(vpdpbusd,)))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from weft.api import program as program_of
from weft.ir.errors import CompileError
from weft.ir.instruction import (
    ACCUMULATOR,
    Instruction,
    Operand,
    VectorEmission,
)
from weft.ir.scalar_expr import Expr, Literal, Var, literal
from weft.ir.scop import Access, Scop, Statement
from weft.ir.tensor_expr import Program, Tensor
from weft.loop_kernel import Kernel
from weft.polyhedral.analysis.linear import box
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.map_instruction import Assignment, Mapped, issue_conflict, mapping_text
from weft.polyhedral.map_instruction import map_instruction as map_statement

REGISTERS = 32
MOST_CYCLES = 1e9  # of one issue: costs of whole programs stay finite

# ---- describing ----------------------------------------------------------------------------------


def instruction(
    semantics: Callable[..., Any] | Tensor | None = None,
    *,
    emit: VectorEmission | None = None,
    name: str | None = None,
    cycles: float = 0.5,
    registers: int = REGISTERS,
    rounds: str = "",
) -> Any:
    """An instruction by its ``semantics``: a loop kernel, a function that becomes one (so that this
    is a decorator, too), or a tensor.

    It has to be one statement that folds into an element, ``acc[lane] += …``, over dims from 0 to
    constants; or a tensor that is a sum of such terms, which the instruction adds to its
    accumulator. Dims that the accumulator moves along are its results; the others are summed up.
    Its arrays are the operands.

    ``emit``: an ``Intrinsic`` (of LLVM's, or a function of the process), an ``Assembly`` or a
    ``Pattern``, whose arguments are the accumulator and the arrays by name. Each is a vector over
    results and then steps of the sum, repeated along dims that it does not have; the accumulator is
    one over results. Without it, loops. ``cycles``: of one issue, above 0; ``registers``: how
    many hold accumulators and operands; ``rounds``: in words, how its results may differ from the
    semantics'. ``name``: in reports, by default that of the function or tensor.

    Raises ``CompileError`` (WEFT-E0020) where the semantics or another argument are of another
    kind.
    """
    _check(emit, cycles, registers)
    if semantics is None:

        def decorate(function: Callable[..., Any]) -> Instruction:
            made: Instruction = instruction(
                function, emit=emit, name=name, cycles=cycles, registers=registers, rounds=rounds
            )
            return made

        return decorate
    called, scop = _scop(semantics)
    return _described(name or called, scop, emit, (int(registers), float(cycles), rounds))


def _check(emit: object, cycles: object, registers: object) -> None:
    if not (emit is None or isinstance(emit, VectorEmission)):
        raise _no_argument("emit", emit, "a weft.Intrinsic, weft.Assembly or weft.Pattern, or None")
    if isinstance(cycles, bool) or not isinstance(cycles, Real) or not _possible(cycles):
        raise _no_argument("cycles", cycles, f"a number above 0, {MOST_CYCLES:.0e} at most")
    if isinstance(registers, bool) or not isinstance(registers, Integral) or registers < 1:
        raise _no_argument("registers", registers, "a whole number, 1 or more")


def _possible(cycles: Real) -> bool:
    """NaN is not, as it is no less than anything."""
    return cycles <= MOST_CYCLES and not cycles <= 0


def _no_argument(name: str, given: object, allowed: str) -> CompileError:
    return CompileError(
        "WEFT-E0020",
        f"an instruction cannot have {name}={given!r}",
        why=f"{name} is {allowed}",
        hint="leave it out for the default",
    )


def _scop(semantics: object) -> tuple[str, Scop]:
    if isinstance(semantics, Tensor):
        return semantics.name, lower(program_of(semantics), semantics.name)
    if isinstance(semantics, Kernel) or callable(semantics):
        kernel = semantics if isinstance(semantics, Kernel) else Kernel(semantics)
        return kernel.__name__, kernel.lowered.scop
    raise _no_instruction(type(semantics).__name__, "it is no function, kernel or tensor")


def _described(
    name: str, scop: Scop, emit: VectorEmission | None, costs: tuple[int, float, str]
) -> Instruction:
    updates = [s for s in scop.statements if s.update is not None]
    if len(updates) != 1 or len(updates[0].writes) != 1:
        raise _no_instruction(name, f"it has {len(updates)} statements that fold into an element")
    (s,) = updates
    if s.body.lets or any(a.may or a.guard for a in s.accesses):
        raise _no_instruction(name, "it chooses what it accesses")
    extents = {d: _extent(name, s, d) for d in s.dims}
    (target,) = s.writes
    reads = [r.tensor for r in s.reads]
    if len(set(reads)) != len(reads) or target.tensor in reads:
        raise _no_instruction(name, "it reads an array twice, or the one that it updates")
    summed = tuple(d for d in s.dims if not _along(target, d))
    order = (*(d for d in s.dims if d not in summed), *summed)
    operands = {ACCUMULATOR: _operand(name, target, order, extents)}
    operands |= {r.tensor: _operand(name, r, order, extents) for r in s.reads}
    assert s.update is not None
    step = replace(
        s,
        name="step",
        domain=(),
        writes=(replace(target, tensor=ACCUMULATOR),),
        update=replace(s.update, dims=summed),
        origin=None,
    )
    if emit is not None:
        known = {target.tensor: ACCUMULATOR, **{r: r for r in reads}}
        unknown = [a for a in emit.arguments if a not in known]
        if unknown:
            raise _no_instruction(name, f"it has no operand {unknown[0]!r}")
        emit = replace(emit, arguments=tuple(known[a] for a in emit.arguments))
    registers, cycles, rounds = costs
    return Instruction(
        name, step, extents, operands, registers, cycles, emission=emit, rounds=rounds
    )


def _extent(name: str, s: Statement, dim: str) -> int:
    match box(s).get(dim):
        case Literal(0), Literal() as end if int(end.value) >= 1:
            return int(end.value)
    raise _no_instruction(name, f"{dim} does not run from 0 to a constant")


def _operand(
    name: str, access: Access, order: Sequence[str], extents: Mapping[str, int]
) -> Operand:
    """An array in a register: by results, then by steps, as far as it moves along them."""
    if not all(isinstance(index, Var | Literal) for index in access.indices):
        raise _no_instruction(name, f"{access.tensor} is not indexed by dims alone")
    place: Expr = literal(0)
    for dim in order:
        if _along(access, dim):
            place = place * extents[dim] + Var(dim)
    return Operand((place,))


def _along(access: Access, dim: str) -> bool:
    return any(isinstance(index, Var) and index.name == dim for index in access.indices)


def _no_instruction(name: str, why: str) -> CompileError:
    return CompileError(
        "WEFT-E0020",
        f"{name} does not describe an instruction",
        why=why,
        hint="one statement like acc[lane] += a[q] * b[lane, q], its loops from 0 to constants",
    )


# ---- mapping -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mappings:
    """The loops of ``scop`` that ``instruction`` computes: ``weft.map_instruction``.

    ``statements``: for each of ``scop`` that folds into an element (of the others no instruction
    computes anything), the mappings and what stood against others. Iterating gives the mappings,
    ``len`` their number, ``str`` both as text.
    """

    scop: Scop
    instruction: Instruction
    statements: Mapping[str, Mapped]

    def __iter__(self) -> Iterator[Assignment]:
        return (a for mapped in self.statements.values() for a in mapped.assignments)

    def __len__(self) -> int:
        return sum(len(mapped.assignments) for mapped in self.statements.values())

    @property
    def refusals(self) -> tuple[str, ...]:
        """What stood against other mappings, in words."""
        return tuple(r for mapped in self.statements.values() for r in mapped.refusals)

    def __str__(self) -> str:
        lines = [f"{self.instruction.name}: {len(self)} mappings"]
        for name, mapped in self.statements.items():
            lines.append(f"  {name}")
            for a in mapped.assignments:
                chosen = mapping_text(self.scop.statement(name), a.dims, a.operands)
                packs = sorted({m.tensor for m in a.packs})
                loops = [f"loops {', '.join(a.outer)}"] if a.outer else []
                loops += [f"packs {', '.join(packs)}"] if packs else []
                lines.append("    " + "; ".join([chosen, *loops]))
            lines += [f"    not {refusal}" for refusal in mapped.refusals]
        return "\n".join(lines)


def map_instruction(program: object, instruction: Instruction) -> Mappings:
    """All ways in which issues of ``instruction`` compute statements of ``program``, or what is
    against it.

    ``program``: a loop kernel, a tensor or several, a ``Program`` or a ``Scop``. What counts as a
    mapping, and which of equal ones are listed, is said in ``polyhedral/map_instruction.py``: every
    subset of dims that move what the instruction's dims move, checked for shared elements, sizes
    and order. Where an issue might read what it updates, the mapping is among the refusals. In
    which order issues may run is not asked here: compiling checks the loops around them. Raises
    ``CompileError`` (WEFT-E0020) for another kind of argument, ``BudgetError`` (WEFT-E0429) where
    there are too many.
    """
    if not isinstance(instruction, Instruction):
        raise _no_instruction(type(instruction).__name__, "weft.instruction(…) makes one")
    scop = _program_scop(program)
    updates = [s for s in scop.statements if s.update is not None]
    if not updates:
        name = scop.statements[0].name if scop.statements else scop.name
        none = Mapped((), (f"{name} is no update of an element (+=, max, …)",))
        return Mappings(scop, instruction, {name: none})
    return Mappings(scop, instruction, {s.name: _usable(scop, s, instruction) for s in updates})


def _usable(scop: Scop, statement: Statement, instruction: Instruction) -> Mapped:
    """The mappings, those whose issues read what they update among the refusals."""
    mapped = map_statement(scop, statement, instruction, several=True)
    conflicts = [issue_conflict(scop, statement, a) for a in mapped.assignments]
    pairs = list(zip(mapped.assignments, conflicts, strict=True))
    refused = [f"{mapping_text(statement, a.dims, a.operands)}: {why}" for a, why in pairs if why]
    return Mapped(tuple(a for a, why in pairs if not why), (*refused, *mapped.refusals))


def _program_scop(program: Any) -> Scop:
    match program:
        case Scop():
            return program
        case Kernel():
            return program.lowered.scop
        case Program():
            return lower(program, program.name)
        case Tensor() | list() | tuple():
            return lower(program_of(program), "program")
    raise CompileError(
        "WEFT-E0020",
        f"{type(program).__name__} is no program whose loops an instruction could compute",
        hint="a loop kernel (weft.kernel), a tensor or several, a weft.Program or a Scop",
    )
