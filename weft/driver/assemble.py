"""Clusters' kernels → one host program: bindings, what runs at compile time, places in memory.

bind      each cluster's tensors become buffers of the whole program
hoist     launches that read constants only run once, when compiling
place     inputs, outputs, constants, and an arena planned by liveness
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.codegen.trim_parameters import trim_parameters
from weft.driver.cluster_code import ClusterCode
from weft.graph.memory_plan import Lifetime, plan
from weft.graph.partition import Cluster
from weft.ir.dtypes import DType
from weft.ir.loop_ir import Block, If, Kernel
from weft.ir.operator_graph import Graph, Value
from weft.ir.program import (
    Aligned,
    Arena,
    Buffer,
    Constant,
    Input,
    Launch,
    Output,
    Place,
    Program,
)
from weft.ir.scalar_expr import Expr, Var, literal, variable_list, walk
from weft.ir.scop import Tensor
from weft.ir.tensor_expr import as_size


@dataclass(frozen=True, slots=True)
class Storage:
    """What a buffer holds: dtype and shape."""

    dtype: DType
    shape: tuple[Expr, ...]

    @property
    def bytes(self) -> Expr:
        total: Expr = literal(self.dtype.itemsize)
        for size in self.shape:
            total = total * size
        return total


def held(tensor: Tensor) -> Storage:
    """What a buffer for ``tensor`` holds: the dimensions that have storage."""
    return Storage(tensor.dtype, tensor.shape[tensor.contracted :])


@dataclass(frozen=True, slots=True)
class Step:
    """One launch before buffers have places: buffer names by kernel argument. ``again``: those of
    which it reads each line many times, so that it matters where lines begin."""

    kernel: Kernel
    arguments: tuple[str, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    again: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ports:
    """The names of what a program is called with, gives, and knows when it is compiled."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: frozenset[str]


@dataclass(frozen=True, slots=True)
class Assembly:
    """``main`` is the program; its constants are the graph's or results of ``prepare``, which
    computes constants from constants and runs when compiling (None: there is nothing to do)."""

    main: Program
    prepare: Program | None = None


def assemble(
    ports: Ports,
    steps: Sequence[Step],
    storage: Mapping[str, Storage],
    derived: Mapping[str, Expr],
    name: str,
) -> Assembly:
    """The program that runs ``steps`` between ``ports``.

    ``storage`` describes every buffer that a step names, ``derived`` the parameters that are
    functions of size symbols. Graph values that are views of others have been replaced by the
    viewed value's name in ``steps``.
    """
    once, always = _split(ports, storage, _unconditional(ports, steps))
    used = {n for step in always for n in (*step.reads, *step.writes)}
    computed = [n for step in once for n in sorted(step.writes)]
    results = tuple(n for n in dict.fromkeys(computed) if n in used)
    prepare = None
    if once:
        outputs = {n: Output(k) for k, n in enumerate(results)}
        prepare = host_program(
            f"{name}_prepare", once, storage, derived, outputs, ports.constants, (), results
        )
    places: dict[str, Place] = {n: Input(k) for k, n in enumerate(ports.inputs)}
    places |= {n: Output(k) for k, n in enumerate(ports.outputs)}
    main = host_program(
        name,
        always,
        storage,
        derived,
        places,
        ports.constants | frozenset(results),
        ports.inputs,
        ports.outputs,
    )
    return Assembly(main, prepare)


def _unconditional(ports: Ports, steps: Sequence[Step]) -> list[Step]:
    """``steps``, where a kernel's one condition is on open sizes (there are rows, say) and all that
    it does in a buffer of its own depends on none, without that condition: weights are packed when
    compiling. It stays in bounds, as it does for the sizes for which the condition holds."""
    written = Counter(n for step in steps for n in step.writes)
    shared = {n for n, count in written.items() if count > 1}.union(ports.inputs, ports.outputs)

    def free(step: Step) -> Step:
        body = step.kernel.body
        if step.writes & shared or not isinstance(body, If) or body.otherwise != Block(()):
            return step
        kernel = trim_parameters(replace(step.kernel, body=body.then))
        return step if kernel.parameters else replace(step, kernel=kernel)

    return [free(step) if step.kernel.parameters else step for step in steps]


def _split(
    ports: Ports, storage: Mapping[str, Storage], steps: Sequence[Step]
) -> tuple[list[Step], list[Step]]:
    """(steps that run when compiling, the others): the former depend on constants alone."""
    written = dict.fromkeys(n for step in steps for n in step.writes)
    is_open = (n for n in written if any(variable_list(size) for size in storage[n].shape))
    varying = {*ports.inputs, *ports.outputs, *is_open}

    def varies(step: Step) -> bool:
        return bool(step.kernel.parameters or (step.reads | step.writes) & varying)

    before = -1
    while len(varying) > before:  # one step that varies makes all that it writes vary
        before = len(varying)
        for step in steps:
            if varies(step):
                varying |= step.writes
    return [s for s in steps if not varies(s)], [s for s in steps if varies(s)]


def host_program(
    name: str,
    steps: Sequence[Step],
    storage: Mapping[str, Storage],
    known: Mapping[str, Expr],
    places: Mapping[str, Place],
    constant: frozenset[str],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
) -> Program:
    """The program that runs ``steps``; buffers without a place of ``places`` are constants, if
    they are ``constant``, or live in the arena. ``known``: derived parameters. Inputs that are read
    again and again begin at a line of the caches for that, unless a step writes them."""
    begun = _begun(steps, places, storage)
    steps = [replace(s, arguments=tuple(begun.get(n, n) for n in s.arguments)) for s in steps]
    storage = {**storage, **{new: storage[n] for n, new in begun.items()}}
    named = list(dict.fromkeys(n for step in steps for n in step.arguments))
    constants = [n for n in named if n in constant and n not in places]
    temporaries = [n for n in named if n not in places and n not in constants]
    offsets, arena = _plan(steps, storage, temporaries, frozenset(begun.values()))
    where: dict[str, Place] = {
        **places,
        **{n: Constant(n) for n in constants},
        **{n: Arena(offsets[n]) for n in temporaries},
    }
    for n, new in begun.items():
        match places[n]:
            case Input(number):
                where[new] = Aligned(number, offsets[new])
    ports = [*inputs, *outputs]
    buffers = {
        n: Buffer(n, storage[n].dtype, storage[n].shape, where[n])
        for n in dict.fromkeys([*ports, *named])
    }
    kernels = {step.kernel.name: step.kernel for step in steps}
    derived = {n: e for n, e in known.items() if any(n in k.parameters for k in kernels.values())}
    parameters = dict.fromkeys(
        [*_symbols(buffers[n] for n in inputs), *derived]
        + [p for kernel in kernels.values() for p in kernel.parameters]
    )
    return Program(
        name=name,
        parameters=tuple(parameters),
        inputs=tuple(buffers[n] for n in inputs),
        outputs=tuple(buffers[n] for n in outputs),
        constants=tuple(buffers[n] for n in constants),
        buffers=tuple(buffers.values()),
        arena=arena,
        steps=tuple(Launch(s.kernel.name, s.arguments) for s in steps),
        kernels=tuple(kernels.values()),
        derived=tuple(derived.items()),
    )


def _begun(
    steps: Sequence[Step], places: Mapping[str, Place], taken: Container[str]
) -> dict[str, str]:
    """Inputs that are to begin at a line, and what each is called where it does: no name that is
    ``taken``."""
    written = frozenset[str]().union(*(step.writes for step in steps))
    again = frozenset[str]().union(*(step.again for step in steps)) - written
    found: dict[str, str] = {}
    for name, place in places.items():
        if name in again and isinstance(place, Input):
            found[name] = f"{name}/aligned"
            while found[name] in taken:
                found[name] += "'"
    return found


def _symbols(buffers: Iterable[Buffer]) -> Iterator[str]:
    """Size symbols in the shapes of ``buffers``."""
    for buffer in buffers:
        for size in buffer.shape:
            yield from (node.name for node in walk(size) if isinstance(node, Var))


def _plan(
    steps: Sequence[Step],
    storage: Mapping[str, Storage],
    names: Sequence[str],
    before: frozenset[str],
) -> tuple[dict[str, Expr], Expr]:
    """Offsets of the temporaries, some of which are there ``before`` the first step, and the
    arena's size, in bytes."""
    first = dict.fromkeys(before, 0)
    last: dict[str, int] = {}
    for number, step in enumerate(steps):
        for n in step.arguments:
            first.setdefault(n, number)
            last[n] = number
    return plan([Lifetime(n, storage[n].bytes, first[n], last[n]) for n in names])


# ---- From cluster-local names to the whole program's.


def bind(
    graph: Graph, clusters: Sequence[Cluster], codes: Sequence[ClusterCode | None]
) -> tuple[list[Step], dict[str, Storage]]:
    """The launches of all clusters on buffers of the whole program, and what the buffers hold.

    A view has no code and no buffer: whoever reads it reads what it views.
    """
    alias: dict[str, str] = {}
    storage = {v.name: _storage(v) for v in _values(graph, clusters)}
    steps: list[Step] = []
    for cluster, code in zip(clusters, codes, strict=True):
        if code is None:
            viewed = cluster.inputs[0].name
            alias[cluster.outputs[0].name] = alias.get(viewed, viewed)
            continue
        names = _names(cluster, code, alias)
        for tensor in code.scheduled.scop.tensors:
            if tensor.scope == "global":
                storage.setdefault(names[tensor.name], held(tensor))
        steps += launches(code, names)
    return steps, storage


def _names(cluster: Cluster, code: ClusterCode, alias: Mapping[str, str]) -> dict[str, str]:
    """Scop tensor -> buffer of the program."""
    names = {t.name: f"{cluster.name}/{t.name}" for t in code.scheduled.scop.tensors}
    for tensor, value in zip(code.inputs, cluster.inputs, strict=True):
        names[tensor.name] = alias.get(value.name, value.name)
    for tensor, value in zip(code.outputs, cluster.outputs, strict=True):
        names[tensor.name] = value.name
    return names


def launches(code: ClusterCode, names: Mapping[str, str]) -> list[Step]:
    """Its kernels in order, on the buffers that ``names`` gives for its tensors, or of their
    names."""

    def named(tensors: Iterable[str]) -> Iterator[str]:
        return (names.get(t, t) for t in tensors)

    return [
        Step(
            k.kernel,
            tuple(named(k.tensors)),
            frozenset(named(k.reads)),
            frozenset(named(k.writes)),
            frozenset(named(k.again)),
        )
        for k in code.kernels
    ]


def _values(graph: Graph, clusters: Sequence[Cluster]) -> list[Value]:
    inside = [v for c in clusters for v in (*c.inputs, *c.outputs)]
    return [*graph.inputs, *graph.outputs, *inside]


def _storage(value: Value) -> Storage:
    return Storage(value.dtype, tuple(map(as_size, value.shape)))
