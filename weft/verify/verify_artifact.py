"""``weft check``: what an artifact was compiled as, proved once more from what it carries.

For each unit of its certificate, ``polyhedral/proof`` proves what it proved when compiling. Before
that, as far as is cheap, that the certificate is of this artifact and hangs together:

* its digest is of the artifact's interface and object code;
* the host program, verified, is called as the artifact is; what the proofs assume of sizes, calls
  check;
* each kernel of the host program is one of a unit, on buffers of that unit's tensors;
* whenever one kernel of a unit runs, all do, in order and on the same memory, but for those that
  have run when compiling.

What a unit computes is believed, and which units a model consists of; so are loop IR, LLVM IR and
machine code: ``docs/artifacts.md``.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from weft.driver.guards import guards_of, range_guards
from weft.ir.errors import ArtifactError, BudgetError, CompileError, InternalError
from weft.ir.isl_context import bounded
from weft.ir.loop_ir import Kernel
from weft.ir.named_isl import domain_set
from weft.ir.program import Buffer, Constant, Launch, Place, Program
from weft.ir.program_verifier import verify_program
from weft.ir.schedule_tree import Sequence as TreeSequence
from weft.ir.schedule_tree import statements_below
from weft.ir.scop import Scop, Statement
from weft.ir.scop_verifier import verify as verify_scop
from weft.ir.size_arithmetic import SizeError, evaluate
from weft.polyhedral.proof.prove import prove
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.certificate import Certificate, Unit, UnitKernel, decode, digest
from weft.runtime.compiled import ArraySpec, Compiled, array_specs

SIZES = (1, 2, 3, 5, 8, 17, 64)  # that a host program of open sizes is verified at


@dataclass(frozen=True, slots=True)
class Checked:
    """One unit, by ``name``: proved, of so many ``statements`` and ``dependences`` in so many
    ``seconds``; or not, and ``refusal`` says why."""

    name: str
    statements: int
    dependences: int
    seconds: float
    refusal: CompileError | None = None


def certificate_for(compiled: Compiled, where: str) -> Certificate:
    """The certificate of ``compiled``, the artifact at ``where``: it is of that and hangs together.

    Raises ArtifactError: WEFT-E0707 where there is none, E0708 where it makes no sense, E0709 where
    it is of another program.
    """
    certificate = decode(compiled.certificate, where)
    if certificate.interface != digest(compiled):
        raise _of_another(where, "its digest is of another interface or other object code")
    if certificate.program.parameters != compiled.parameters:
        raise _of_another(where, "its host program has other parameters")
    try:
        for unit in certificate.units:
            verify_scop(unit.original)
            verify_scop(unit.scheduled)
        verify_program(certificate.program, _samples(compiled))
        wrong = next(_faults(certificate), "")
    except (InternalError, BudgetError, RecursionError) as error:
        wrong = str(error)
    if wrong:
        raise ArtifactError("WEFT-E0708", "the certificate is malformed", where=where, why=wrong)
    why = next(_differences(compiled, certificate), "")
    if why:
        raise _of_another(where, why)
    return certificate


def check_unit(unit: Unit) -> Checked:
    """``unit`` of a certificate that hangs together, proved or refused."""
    started = time.perf_counter()
    dependences, refusal = 0, None
    try:
        dependences = prove(unit.original, unit.scheduled, unit.tree).dependences
    except CompileError as error:
        refusal = error
    seconds = time.perf_counter() - started
    statements = len(unit.scheduled.statements)
    return Checked(unit.original.name, statements, dependences, seconds, refusal)


# ---- Is it of this artifact?


def _of_another(where: str, why: str) -> ArtifactError:
    return ArtifactError(
        "WEFT-E0709", "the certificate is of another program", where=where, why=why
    )


def _differences(compiled: Compiled, certificate: Certificate) -> Iterator[str]:
    """What the artifact does and its certificate does not say."""
    program, units = certificate.program, certificate.units
    in_place = tuple((p.output, p.input) for p in compiled.in_place if p.shared)
    constants = [(name, array.dtype, array.shape) for name, array in compiled.constants]
    for what, said, done in (
        ("inputs", _specs(program, program.inputs), _nameless(compiled.inputs)),
        ("outputs", _specs(program, program.outputs), _nameless(compiled.outputs)),
        ("derived sizes", program.derived, compiled.derived),
        ("inputs that are numbers", program.scalars, compiled.scalars),
        ("outputs in place of inputs", program.in_place, in_place),
        ("constants", [_held(buffer) for buffer in program.constants], constants),
        ("steps", len(program.steps), len(compiled.checks)),
    ):
        if said != done:
            yield f"its host program has other {what}"
    assumed = [*guards_of([unit.scheduled for unit in units])]
    if compiled.scalars:
        for unit in units:
            assumed += range_guards(Scheduled(unit.original, unit.scheduled, unit.tree))
    for guard in assumed:
        if guard not in compiled.guards:
            yield f"it is for {guard.text}, which calls do not check"


def _specs(program: Program, buffers: tuple[Buffer, ...]) -> list[ArraySpec]:
    return _nameless(array_specs(program, buffers, tuple(b.name for b in buffers)))


def _nameless(specs: Iterable[ArraySpec]) -> list[ArraySpec]:
    """Callers have names of their own."""
    return [replace(spec, name="") for spec in specs]


def _held(constant: Buffer) -> tuple[str, object, tuple[int, ...]]:
    """Name, dtype and shape of what ``constant`` holds."""
    shape = tuple(evaluate(size, {}) for size in constant.shape)
    return constant.name, constant.dtype.numpy, shape


def _samples(compiled: Compiled) -> list[dict[str, int]]:
    """Some sizes that ``compiled`` may be called with."""
    found, derived = [], dict(compiled.derived)
    for size in SIZES:
        sizes = {name: size for name in compiled.parameters if name not in derived}
        try:
            for name, value in derived.items():
                sizes[name] = evaluate(value, sizes)
            if all(evaluate(guard.condition, sizes) for guard in compiled.guards):
                found.append(sizes)
        except SizeError:
            continue
    return found


# ---- Does it hang together?


def _faults(certificate: Certificate) -> Iterator[str]:
    """What is wrong with kernels and steps, but for what ``verify_program`` finds."""
    owners: dict[str, Unit] = {}
    for unit in certificate.units:
        for made in unit.kernels:
            if made.name in owners:
                yield f"{made.name} is a kernel twice"
            owners[made.name] = unit
        yield from _parting(unit)
    for kernel in certificate.program.kernels:
        if kernel.name in owners:
            yield from _signature(kernel, owners[kernel.name])
        else:
            yield f"{kernel.name} is a kernel of no unit"
            return
    kernels = {kernel.name: kernel for kernel in certificate.program.kernels}
    places = {buffer.name: buffer.place for buffer in certificate.program.buffers}
    for steps in _runs(certificate.program, owners):
        yield from _binding(kernels, places, steps, owners[steps[0].kernel])


def _parting(unit: Unit) -> Iterator[str]:
    """Do kernels take the top-level nests in turn? Do they share no memory of their own?"""
    name, tree = unit.original.name, unit.tree
    if [s for made in unit.kernels for s in made.statements] != list(statements_below(tree)):
        yield f"the kernels of {name} do not run its statements in order"
        return
    number = {s: k for k, made in enumerate(unit.kernels) for s in made.statements}
    for part in tree.children if isinstance(tree, TreeSequence) else (tree,):
        if len({number[s] for s in statements_below(part)}) > 1:
            yield f"a nest of {name} is parted by two kernels"
    users = Counter(t for made in unit.kernels for t in _tensors(unit.scheduled, made))
    for tensor in unit.scheduled.tensors:
        if tensor.scope != "global" and users[tensor.name] > 1:
            yield f"kernels of {name} share {tensor.name}, which is each one's own"


def _signature(kernel: Kernel, unit: Unit) -> Iterator[str]:
    """Are the arguments of ``kernel`` the tensors that it uses?"""
    made = next(made for made in unit.kernels if made.name == kernel.name)
    tensors = {t.name: t for t in unit.scheduled.tensors if t.scope == "global"}
    used, written = _tensors(unit.scheduled, made), _written(unit.scheduled, made)
    for formal in kernel.buffers:
        tensor = tensors.get(formal.name)
        if tensor is None or formal.name not in used:
            yield f"{kernel.name} takes {formal.name}, which its statements do not use"
        elif (formal.dtype, formal.shape) != (tensor.dtype, tensor.shape[tensor.contracted :]):
            yield f"{kernel.name} takes {formal.name} of another dtype or shape"
        elif formal.writable != (formal.name in written):
            yield f"{kernel.name} takes {formal.name} and says otherwise whether it writes it"
    taken = {formal.name for formal in kernel.buffers}
    for name in sorted(used & tensors.keys() - taken):
        if tensors[name].role != "temp":
            yield f"{kernel.name} does not take {name}"
    if not set(kernel.parameters) <= set(unit.scheduled.parameters):
        yield f"{kernel.name} takes parameters that {unit.original.name} has not"


def _runs(program: Program, owners: dict[str, Unit]) -> Iterator[list[Launch]]:
    """The steps, those of one run of a unit together."""
    steps: list[Launch] = []
    for step in program.steps:
        if steps and owners[steps[0].kernel] is owners[step.kernel]:
            order = [made.name for made in owners[step.kernel].kernels]
            if order.index(steps[-1].kernel) < order.index(step.kernel):
                steps.append(step)
                continue
        if steps:
            yield steps
        steps = [step]
    if steps:
        yield steps


def _binding(
    kernels: Mapping[str, Kernel], places: Mapping[str, Place], steps: list[Launch], unit: Unit
) -> Iterator[str]:
    """Do the ``steps`` of one run of ``unit`` agree on where its tensors lie? Has what is missing
    run when compiling?"""
    bound: dict[str, str] = {}  # tensor → buffer
    for step in steps:
        for formal, argument in zip(kernels[step.kernel].buffers, step.arguments, strict=True):
            if bound.setdefault(formal.name, argument) != argument:
                yield f"{step.kernel} takes {formal.name} from elsewhere than those before it"
    times = Counter(bound.values())
    for name in sorted(_written(unit.scheduled, *unit.kernels) & bound.keys()):
        if times[bound[name]] > 1:
            yield f"{unit.original.name} writes {bound[name]}, which is two of its tensors"
    launched = {step.kernel for step in steps}
    run = [made for made in unit.kernels if made.name in launched]
    roles = {tensor.name: tensor.role for tensor in unit.scheduled.tensors}
    for made in (made for made in unit.kernels if made not in run):
        for name in sorted(_touched(unit.scheduled, made)):
            constant = name not in bound or isinstance(places[bound[name]], Constant)
            varies = roles[name] in ("input", "inout") or name in _written(unit.scheduled, *run)
            if varies or not constant:
                yield f"{made.name} never runs, and {name} is no constant"


def _tensors(scop: Scop, made: UnitKernel) -> set[str]:
    """What the statements of a kernel use."""
    return {a.tensor for s in _statements(scop, made) for a in s.accesses}


def _touched(scop: Scop, made: UnitKernel) -> set[str]:
    """What its statements use that have instances: one on an array without elements has none."""
    with bounded(what="the check of the host program"):
        running = [s for s in _statements(scop, made) if not domain_set(scop, s).is_empty()]
    return {a.tensor for s in running for a in s.accesses}


def _written(scop: Scop, *made: UnitKernel) -> set[str]:
    return {write.tensor for one in made for s in _statements(scop, one) for write in s.writes}


def _statements(scop: Scop, made: UnitKernel) -> list[Statement]:
    inside = set(made.statements)
    return [s for s in scop.statements if s.name in inside]
