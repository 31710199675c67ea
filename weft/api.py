"""``weft.compile`` and ``weft.lower``: one door for tensor expressions and ONNX models."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx

from weft.accel.machines.named import MACHINES, machine_named
from weft.codegen.target import Cpu
from weft.driver.cluster_code import automatic_schedule
from weft.driver.compiler import lower_graph, lower_loops, no_such_cluster
from weft.driver.graph_front import cluster_scops
from weft.driver.options import Options, options_or_default
from weft.driver.passes import Passes
from weft.driver.schedule_value import Schedule, Subject, not_a_schedule
from weft.driver.specialized import Specialize, specialized
from weft.driver.targets import target_for
from weft.driver.user_passes import with_user_passes
from weft.frontend.onnx.importer import import_model
from weft.frontend.onnx.open_model import open_model
from weft.frontend.torch.exported import export, import_exported, is_exported, is_module
from weft.graph.from_program import from_program
from weft.host.model import Model, compile_model
from weft.host.onnx_shapes import Shapes
from weft.host.torch_model import TorchModel, compile_exported
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CallError, CompileError, ExpressionError
from weft.ir.operator_graph import Graph
from weft.ir.plan import Plan, Value
from weft.ir.scalar_expr import Var, walk
from weft.ir.tensor_expr import Program, Tensor, as_size, operations, size_symbols
from weft.ir.tensor_verifier import verify
from weft.loop_kernel import Kernel
from weft.offload.accelerated import Accelerated, accelerate
from weft.offload.quantization import Inputs, Quantized, integers_of, model_graph, quantized
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.executable import Executable
from weft.verify.verify_full import compile_and_verify, compile_and_verify_kernel

Planned = Plan | Mapping[str, Value] | str | os.PathLike[str]
"""What stands for a plan: one, a mapping from names of decisions to values, JSON text or a path."""
Source = Any  # Tensor(s), a Program, an ONNX path, bytes or ModelProto, a Quantized, PyTorch's


def compile(
    source: Source,
    args: Sequence[object] | None = None,
    *,
    target: str | Cpu | Accelerator | None = None,
    options: Options | None = None,
    in_place: Mapping[str, str] | None = None,
    shapes: Shapes | None = None,
    schedule: Schedule | Mapping[str, Schedule] | None = None,
    plan: Planned | None = None,
    specialize: Specialize | None = None,
) -> Executable | Model | TorchModel | Accelerated:
    """``source`` as something callable.

    ::

        x = weft.placeholder((weft.var("n"),), "float32", name="x")
        double = weft.compile(weft.compute(x.shape, lambda i: 2 * x[i], name="y"))
        double(np.ones(3, np.float32))  # array([2., 2., 2.], dtype=float32)

    ``source`` is a loop kernel (see ``weft.kernel``), a tensor or a sequence of tensors (the
    outputs; inputs are the placeholders that they need, in the order in which those were created),
    a ``Program``, what ``quantize`` made, or an ONNX model: a path, bytes or a ``ModelProto``. An
    ONNX model of fixed shapes gives one ``Executable``; another a ``Model``, which is compiled once
    for all of its open sizes, or where it cannot be, for those of its calls. Or it is a PyTorch
    model, a ``torch.export.ExportedProgram``, the path of one, or a ``torch.nn.Module`` in the mode
    that it is in, with ``args``, example arguments of a call: a ``TorchModel`` (docs/pytorch.md).

    ``target``: the processor to compile for, by default that of ``options``: "host", this one, or
    a name that ``weft targets`` lists or LLVM knows, or a record of one's own (docs/targets.md).
    What cannot run here can be saved. Or an accelerator, "vta" or one of one's own
    (``weft.hardware``): an ``Accelerated``, whose parts for it are simulated.
    ``options``: what is not given in them is what the environment says (``weft.Options``).
    ``in_place``: output name -> name of the input that the call overwrites with it. ``shapes``:
    input name -> sizes, where an ONNX model leaves some open: numbers, ranges (1, 64) of what stays
    open, None for what the model says. ``specialize``: versions of a program of open sizes,
    [{"batch": 1}, …], or "background" (docs/open-sizes.md). ``schedule``: one that
    ``weft.schedule(source)`` began, or some of ``weft.schedules(source)``, by name; what has none
    is scheduled by Weft. ``plan``: decisions to take otherwise than Weft would, what
    ``Executable.plan`` gives, its JSON text or file, or a mapping from names to values
    (docs/plans.md).

    Raises ``CompileError``: WEFT-E0010 for another kind of ``source``, E0011 to E0017 for names,
    sizes and arguments that do not go with it, E0030 for ``args`` that are missing or out of
    place, E0033 to E0035 for ``specialize``, E0025 to E0029 for a plan that does not fit, and
    what each stage refuses (``weft.ir.errors`` has the ranges of codes): ``ExpressionError``,
    ``KernelError``, ``ModelError``, ``UnsupportedError``, ``IllegalScheduleError``,
    ``BudgetError``.
    """
    source = _traced(source, args)
    named = isinstance(target, str) and target in MACHINES
    machine = machine_named(str(target), {}) if named else target
    if isinstance(machine, Accelerator):
        unfit = (in_place, schedule, plan, specialize)
        return _accelerated(source, machine, options, shapes, unfit)
    chosen = _chosen(machine, options)
    given, decided = _given(schedule), Plan.read({} if plan is None else plan)
    if isinstance(source, Kernel):
        chosen = _for(machine, options_or_default(options or source.options))
        return _compiled_kernel(source, chosen, given, decided, in_place, shapes, specialize)

    def compiled(graph: Graph) -> Executable:
        program = compile_and_verify(graph, chosen, given, decided)
        if specialize is None:
            return program
        return specialized(program, graph, specialize, lambda g: compile_and_verify(g, chosen))

    if _is_onnx(source):
        _no_pairs(in_place)
        if not given:
            return compile_model(source, chosen, shapes, decided, specialize)
        graph = import_model(*open_model(source))
    else:
        if shapes:
            raise CompileError("WEFT-E0013", "shapes is for ONNX models alone")
        if is_exported(source):
            _no_pairs(in_place)
            exported = import_exported(source)
            if given or decided or specialize is not None:
                exported.require_one()
            return compile_exported(exported, compiled)
        graph = _graph(source, in_place)
    return compiled(graph)


def quantize(
    source: Source,
    inputs: Inputs,
    *,
    options: Options | None = None,
    shapes: Shapes | None = None,
) -> Quantized:
    """``source`` with its sums of products in 8-bit integers, for ``compile``.

    ``source``: tensors, a ``Program`` or an ONNX model whose shapes are fixed, by itself or by
    ``shapes``, input name -> shape. ``inputs`` by name, of one typical call or of several: what
    values they lead to decides about scales, which are powers of two. ``options``: as ``compile``
    has them, for the programs that find these values.

    Raises ``CompileError`` as ``compile`` does, and ``CallError`` for inputs that do not fit, are
    not finite or all 0 (WEFT-E0640, E0641).
    """
    return quantized(graph_of(source, shapes), inputs, options)


def _accelerated(
    source: Source,
    machine: Accelerator,
    options: Options | None,
    shapes: Shapes | None,
    unfit: Sequence[object],
) -> Accelerated:
    if any(unfit) or isinstance(source, Kernel):
        raise CompileError(
            "WEFT-E0017",
            "loop kernels, in_place, schedule, plan and specialize are not for accelerators",
            hint="tensor expressions, ONNX models, and what weft.quantize makes of them",
        )
    chosen = options_or_default(options)
    done = replace(chosen, passes=())
    graph = model_graph(source, shapes) if _is_onnx(source) else _graph(source, None)
    graph = with_user_passes(graph, Passes(chosen, graph.name))
    return accelerate(integers_of(graph, done) if _is_onnx(source) else graph, machine, done)


def _compiled_kernel(
    kernel: Kernel, options: Options, given: Mapping[str, Scheduled], plan: Plan, *unfit: object
) -> Executable:
    if any(unfit):
        raise CompileError(
            "WEFT-E0017",
            "in_place, shapes and specialize are not for loop kernels",
            why="a kernel overwrites the arrays that it writes, and takes any sizes",
        )
    return compile_and_verify_kernel(kernel.lowered, options, _for_kernel(kernel, given), plan)


def _for_kernel(kernel: Kernel, given: Mapping[str, Scheduled]) -> Scheduled | None:
    for name in given:
        if name != kernel.scop.name:
            raise no_such_cluster(name, [kernel.scop.name])
    return next(iter(given.values()), None)


def _given(schedule: Schedule | Mapping[str, Schedule] | None) -> dict[str, Scheduled]:
    """Schedules by the names of the clusters that they are for."""
    named = schedule if isinstance(schedule, Mapping) else {}
    if isinstance(schedule, Schedule):
        named = {schedule.scheduled.original.name: schedule}
    elif schedule is not None and not isinstance(schedule, Mapping):
        named = {"schedule": schedule}
    for name, value in named.items():
        if not isinstance(value, Schedule):
            raise not_a_schedule(name, value)
    return {name: value.scheduled for name, value in named.items()}


def schedules(source: Source, *, options: Options | None = None) -> dict[str, Schedule]:
    """For each distinct cluster of ``source``, by name, the schedule in the order of the source.

    ``source``: what ``compile`` takes; for a loop kernel there is one, under its own name. Clusters
    are what Weft compiles into code of its own; ``compile(source, schedule=…)`` takes them back.
    ``options``: what ``automatic`` chooses for; a graph is partitioned for their target. Raises
    ``CompileError`` as ``compile`` does.
    """
    if isinstance(source, Kernel):
        return {source.scop.name: source.schedule(options=options)}
    chosen = _chosen(None, options)
    machine = target_for(chosen).machine
    graph = import_model(*open_model(source)) if _is_onnx(source) else _graph(source, None)
    scops = cluster_scops(graph, chosen)

    def subject(name: str) -> Subject:
        whole = f"weft.schedule({_script_name(graph)})"
        part = f'weft.schedules({_script_name(graph)})["{name}"]'
        return Subject(
            whole if len(scops) == 1 else part,
            lambda made, options: compile(source, options=options, schedule=made),
            lambda scop: automatic_schedule(scop, machine, chosen),
        )

    return {
        name: Schedule(initial(scop, machine.extensions), subject(name))
        for name, scop in scops.items()
    }


def schedule(source: Source, *, options: Options | None = None) -> Schedule:
    """``source``, a loop kernel or what becomes one cluster, in its own order: a value to change,
    to print and to compile. ``options`` as ``schedules`` has them.

    ::

        s = weft.schedule(matmul).tile({"i": 32, "j": 32}).parallel("i_t")
        print(s)  # the script that rebuilds it
        s.compile()(A, B, C)

    Raises ``CompileError`` (WEFT-E0016) where there are several clusters: then ``schedules`` has
    them by name.
    """
    found = schedules(source, options=options)
    if len(found) != 1:
        raise CompileError(
            "WEFT-E0016",
            f"the program has {len(found)} clusters, each with a schedule of its own",
            hint=f'weft.schedules(x)["{next(iter(found))}"]; names: {", ".join(found)}'
            if found
            else "it computes nothing",
        )
    return next(iter(found.values()))


def _script_name(graph: Graph) -> str:
    return graph.name if graph.name.isidentifier() else "program"


class Stages:
    """The ``texts`` of one compilation by stage; ``str`` gives that of ``stage``, by default of the
    last. ``lower`` makes it."""

    def __init__(self, texts: Mapping[str, str], stage: str | None) -> None:
        self._texts = dict(texts)
        self._stage = stage or next(reversed(self._texts), "")
        self.as_text(self._stage)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that there are, in order."""
        return tuple(self._texts)

    def as_text(self, stage: str | None = None) -> str:
        """The program after ``stage``, by default the one asked for. Raises ``CallError``
        (WEFT-E0609), which lists the stages there are."""
        wanted = stage or self._stage
        if wanted not in self._texts:
            raise CallError(
                "WEFT-E0609",
                f"there is no stage {wanted!r}",
                hint=f"stages: {', '.join(self._texts)}",
            )
        return self._texts[wanted]

    def __str__(self) -> str:
        return self.as_text()


def lower(
    source: Source,
    stage: str | None = None,
    *,
    target: str | Cpu | None = None,
    options: Options | None = None,
    schedule: Schedule | Mapping[str, Schedule] | None = None,
) -> Stages:
    """``source`` lowered as far as the host program, without machine code.

    ``print(weft.lower(x, "scop"))`` shows one ``stage``, by default the last;
    ``weft.lower(x).stages`` lists them. ``source``, ``target``, ``options`` and ``schedule`` as
    ``compile`` takes them; open sizes of an ONNX model become symbols.

    Raises ``CompileError`` as ``compile`` does, and ``CallError`` (WEFT-E0609) for a stage that
    there is not.
    """
    chosen, given = replace(_chosen(target, options), texts=True), _given(schedule)
    if isinstance(source, Kernel):
        mine = _for_kernel(source, given)
        return Stages(lower_loops(source.lowered, chosen, mine).passes.texts, stage)
    graph = import_model(*open_model(source)) if _is_onnx(source) else _graph(source, None)
    return Stages(lower_graph(graph, chosen, schedules=given).passes.texts, stage)


def program(outputs: Tensor | Sequence[Tensor], *, name: str = "program") -> Program:
    """The program ``name`` that computes ``outputs``, one tensor or several, from the placeholders
    that they need, in order of creation. Raises ``CompileError`` (WEFT-E0010) for what is no
    tensor.
    """
    many = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    if not many or not all(isinstance(t, Tensor) for t in many):
        raise _no_source(outputs, "without a tensor" if not many else "of more than tensors")
    read = [t for operation in operations(Program(name, (), many)) for t in operation.reads]
    inputs = dict.fromkeys(t for t in (*many, *read) if t.operation is None)
    return Program(name, tuple(sorted(inputs, key=lambda t: t.serial)), many)


def _chosen(target: str | Cpu | None, options: Options | None) -> Options:
    return _for(target, options_or_default(options))


def _for(target: str | Cpu | None, options: Options) -> Options:
    """``options`` with ``target``, if it is given; refused now where there is no such target."""
    chosen = options if target is None else replace(options, target=target)
    target_for(chosen)
    return chosen


def _is_onnx(source: Source) -> bool:
    kinds = onnx.ModelProto | bytes | str | os.PathLike
    return isinstance(source, kinds) and not is_exported(source)


def _traced(source: Source, args: Sequence[object] | None) -> Source:
    """``source``, a module of PyTorch's exported with ``args``."""
    if is_module(source) and args is not None:
        return export(source, args)
    if is_module(source) or args is not None:
        raise CompileError(
            "WEFT-E0030",
            f"{type(source).__name__} {'without' if args is None else 'with'} example arguments",
            why="they say with which shapes a torch.nn.Module is traced, and go with nothing else",
            hint="weft.compile(module, (x,)), or weft.compile(torch.export.export(module, (x,)))",
        )
    return source


def _no_pairs(in_place: Mapping[str, str] | None) -> None:
    if in_place:
        raise CompileError("WEFT-E0012", "in_place is for tensor expressions, not ONNX or PyTorch")


def graph_of(source: Source, shapes: Shapes | None = None) -> Graph:
    """The operator graph of ``source``, all of which is tensors of known ranks. Raises as
    ``compile`` does."""
    if _is_onnx(source):
        return model_graph(source, shapes)
    if shapes:
        raise CompileError("WEFT-E0013", "shapes is for ONNX models, not tensor expressions")
    return _graph(source, None)


def _graph(source: Source, in_place: Mapping[str, str] | None) -> Graph:
    """``source``, tensors, a ``Program``, a ``Quantized`` or an exported program, as a verified
    operator graph."""
    if is_exported(source):
        return import_exported(source).imported.graph
    if isinstance(source, Quantized) and not in_place:
        return source.graph
    if isinstance(source, Program):
        whole = source
    elif isinstance(source, Tensor):
        whole = program(source, name=source.name)
    elif isinstance(source, Sequence):
        whole = program(source)
    else:
        raise _no_source(source)
    _check_names("placeholders", whole.inputs)
    _check_names("outputs", whole.outputs)
    _check_sizes(whole)
    if in_place:
        whole = replace(whole, in_place=_pairs(whole, in_place))
    verify(whole)
    return from_program(whole)


def _no_source(source: object, what: str = "") -> CompileError:
    sources = (
        "pass a kernel, a Tensor, a sequence of Tensors, a Program, or an ONNX path, bytes or"
        " model, a torch.export.ExportedProgram, a torch.nn.Module with its arguments"
    )
    scheduled = "schedule.compile(), or weft.compile(source, schedule=…)"
    return CompileError(
        "WEFT-E0010",
        f"{type(source).__name__} {what}".strip() + " cannot be compiled",
        hint=scheduled if isinstance(source, Schedule) else sources,
    )


def _check_names(what: str, tensors: Sequence[Tensor]) -> None:
    """Calls are made by name, so names must tell tensors apart."""
    seen: set[str] = set()
    for tensor in tensors:
        if tensor.name in seen:
            raise ExpressionError(
                "WEFT-E0011", f"two {what} are named {tensor.name!r}", hint="give each its own name"
            )
        seen.add(tensor.name)


def _check_sizes(whole: Program) -> None:
    """A call learns sizes from its arguments' shapes, so every size of a result must be there."""
    known = size_symbols(whole)
    for tensor in whole.outputs:
        for size in tensor.shape:
            for node in walk(as_size(size)):
                if isinstance(node, Var) and node.name not in known:
                    raise ExpressionError(
                        "WEFT-E0014",
                        f"no input has the size {node.name!r} in its shape",
                        where=f"shape of {tensor.name}",
                        hint="pass a placeholder that has it, or use a number",
                    )


def _pairs(whole: Program, in_place: Mapping[str, str]) -> tuple[tuple[int, int], ...]:
    """(output, input) numbers of the declared pairs of names."""
    if not isinstance(in_place, Mapping):
        raise ExpressionError(
            "WEFT-E0012", f"in_place is a {type(in_place).__name__}", hint='{"output": "input"}'
        )
    outputs, inputs = ([t.name for t in side] for side in (whole.outputs, whole.inputs))
    pairs: list[tuple[int, int]] = []
    for output, given in in_place.items():
        for name, names, what in ((output, outputs, "output"), (given, inputs, "input")):
            if name not in names:
                raise ExpressionError(
                    "WEFT-E0012",
                    f"in_place: there is no {what} {name!r}",
                    hint=f"{what}s: {', '.join(names)}",
                )
        pairs.append((outputs.index(output), inputs.index(given)))
    if len({given for _, given in pairs}) < len(pairs):
        raise ExpressionError("WEFT-E0012", "in_place: two outputs in the memory of one input")
    return tuple(pairs)
