"""One cluster on small sizes, interpreted after every pass from its tensor program to its code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from types import FrameType
from typing import TypeVar

import numpy as np

from weft.codegen.from_schedule import build_kernel
from weft.codegen.llvm.target import LlvmTarget
from weft.codegen.optimise_kernel import PASSES
from weft.driver.cluster_code import nests, prove, with_constants
from weft.driver.options import Options
from weft.graph.cluster_program import ClusterProgram, cluster_program
from weft.graph.partition import Cluster
from weft.ir import loop_interpreter, scop_interpreter
from weft.ir.errors import BudgetError, ExecutionError, IllegalScheduleError, WeftWarning
from weft.ir.loop_ir import Kernel
from weft.ir.loop_printer import print_kernel
from weft.ir.machine import Machine
from weft.ir.operator_graph import Graph, Node
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Scop, Tensor
from weft.ir.scop_printer import scop_text
from weft.ir.size_arithmetic import evaluate
from weft.ir.tensor_printer import program_text
from weft.polyhedral.coalesce import coalesce
from weft.polyhedral.contributing import contributing
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.keep_order import keep_order
from weft.polyhedral.schedule_loops import schedule_loops as schedule
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.polyhedral.unread import unread
from weft.verify.ladder import Ladder
from weft.verify.oracle import Arrays, garbage, read_only, run_graph, tried
from weft.verify.shrink import points, shrink, symbol_values
from weft.verify.verify_program import check_program

MAX_POINTS = 50_000  # scalar evaluations that the slow interpreters are given
NAME = "small"  # of the Scop


def check_cluster(
    cluster: Cluster, graph: Graph, options: Options, machine: Machine, target: LlvmTarget
) -> None:
    """Raise ``InternalError`` (WEFT-E0920) for the first pass after which results diverge.

    ``cluster`` is one of ``graph``. Warns where there is no small instance of it.
    """
    where = ", ".join(dict.fromkeys(node.origin or node.name for node in cluster.nodes))
    small = _small(cluster, graph)
    whole = cluster_program(small)
    symbols = symbol_values(_alone(small, graph.constants))
    total = points(whole.program, symbols)
    if total > MAX_POINTS:
        _warn(where, f"its smallest instance has {total:,} points")
        return
    one = _one_node(small, whole, graph.constants, where)
    try:
        one, inputs, wanted = tried(one, run_graph)
    except ExecutionError as error:
        _warn(where, f"no data was found that it accepts ({error.what})")
        return
    ladder = Ladder(where, options, wanted, partial(program_text, whole.program))
    data = {**dict(zip((v.name for v in one.inputs), inputs, strict=True)), **one.constants}
    known = frozenset(k for k, v in enumerate(small.inputs) if v.name in one.constants)
    _Check(ladder, whole, [data[v.name] for v in small.inputs], known, machine).run()
    check_program(one, inputs, ladder, machine, target)


def _warn(where: str, why: str) -> None:
    text = f"{where}: checked by the static checkers only, not by interpretation: {why}"
    warnings.warn(text, WeftWarning, stacklevel=4)


# ---- the small instance -------------------------------------------------------------------------


def _alone(cluster: Cluster, constants: Mapping[str, np.ndarray]) -> Graph:
    """``cluster`` as a graph of its own."""
    known = {v.name: constants[v.name] for v in cluster.inputs if v.name in constants}
    inputs = tuple(v for v in cluster.inputs if v.name not in known)
    return Graph(cluster.name, inputs, cluster.outputs, cluster.nodes, known)


def _small(cluster: Cluster, graph: Graph) -> Cluster:
    small = shrink(_alone(cluster, graph.constants))
    values = {v.name: v for node in small.nodes for v in (*node.inputs, *node.outputs)}
    inputs = tuple(values[v.name] for v in cluster.inputs)
    return replace(cluster, nodes=small.nodes, inputs=inputs, outputs=small.outputs)


def _one_node(
    small: Cluster, whole: ClusterProgram, constants: Mapping[str, np.ndarray], where: str
) -> Graph:
    """All operators of ``small`` in one, so that no partition takes them apart again."""
    node = Node(small.name, "cluster", small.inputs, small.outputs, {}, whole.program, where)
    cropped = {
        v.name: read_only(constants[v.name][tuple(slice(0, int(str(n))) for n in v.shape)])
        for v in small.inputs
        if v.name in constants
    }
    return _alone(replace(small, nodes=(node,)), cropped)


# ---- the passes ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Check:
    """``inputs`` are data for the program's inputs, those numbered ``constant`` known."""

    ladder: Ladder
    cluster: ClusterProgram
    inputs: Arrays
    constant: frozenset[int]
    machine: Machine
    parameters: dict[str, int] = field(default_factory=dict)
    data: dict[str, np.ndarray] = field(default_factory=dict)  # by Scop tensor

    def run(self) -> None:
        scheduled = self._schedule(self._scop())
        made = nests(scheduled, NAME)
        kernels = self.ladder.make(
            "from_schedule", lambda: [build_kernel(n.scop, n.tree, n.scop.name) for n in made]
        )
        self._kernels("from_schedule", scheduled.scop, kernels)
        for name, kernel_pass in PASSES:
            kernels = self.ladder.make(name, partial(_all, kernel_pass, kernels))
            self._kernels(name, scheduled.scop, kernels)

    def _scop(self) -> Scop:
        """The Scop that is scheduled."""
        make = self.ladder.make
        scop = make(
            "from_tensor_expr",
            lambda: lower(self.cluster.program, NAME, sources=self.cluster.sources),
        )
        names = [t.name for t in scop.tensors if t.role == "input"]
        self.data = dict(zip(names, self.inputs, strict=True))
        self.parameters = scop_interpreter.bind_parameters(scop, self.data)
        self._state("from_tensor_expr", State("", scop, None))
        scop = make("needed", lambda: unread(contributing(scop)))
        self._state("needed", State("", scop, None))
        scop = make("coalesce", lambda: coalesce(with_constants(scop, self.constant)))
        self._state("coalesce", State("", scop, None))
        return keep_order(scop) if self.ladder.options.strict else scop

    def _schedule(self, scop: Scop) -> Scheduled:
        """The schedule that code is made of: the scheduler's own if the checkers let it through."""
        try:
            made = self.ladder.make("schedule", lambda: schedule(scop, self.machine))
        except (IllegalScheduleError, BudgetError):
            return initial(scop)
        refusal = _refusal(scop, made)
        if refusal:
            self._name_refused(scop, refusal)
            return initial(scop)
        final = State("schedule", made.scop, made.tree)
        if self.ladder.problem(partial(self._interpreted, final)):
            for state in (*self._states(scop), final):
                self._state(state.transformation, state)
        self.ladder.passed, self.ladder.text = "schedule", partial(_state_text, final)
        return made

    def _states(self, scop: Scop) -> list[State]:
        return watch(lambda: schedule(scop, self.machine))[1]

    def _name_refused(self, scop: Scop, refusal: str) -> None:
        """Say which transformation the checkers refuse; what is compiled runs serially."""
        wrong = (s.transformation for s in self._states(scop) if _refusal(scop, _scheduled(s)))
        text = (
            f"schedule refused after transformation {next(wrong, 'unknown')}, on a small instance"
        )
        warnings.warn(f"{self.ladder.where}: {text}\n{refusal}", WeftWarning, stacklevel=6)

    def _state(self, name: str, state: State) -> None:
        self.ladder.step(name, partial(_state_text, state), partial(self._interpreted, state))

    def _interpreted(self, state: State) -> Arrays:
        scop = state.scop
        data = {t.name: self.data[t.name].reshape(self._shape(t)) for t in scop.tensors
                if t.name in self.data}  # fmt: skip
        results = scop_interpreter.interpret(scop, data, self.parameters, tree=state.tree)
        return list(results.values())

    def _shape(self, tensor: Tensor) -> tuple[int, ...]:
        return tuple(evaluate(size, self.parameters) for size in tensor.shape)

    def _kernels(self, name: str, scop: Scop, kernels: Sequence[Kernel]) -> None:
        self.ladder.step(
            name,
            lambda: "\n".join(map(print_kernel, kernels)),
            lambda: self._run_kernels(scop, kernels),
        )

    def _run_kernels(self, scop: Scop, kernels: Sequence[Kernel]) -> Arrays:
        memory = {}
        for tensor in scop.tensors:
            if tensor.scope == "global":
                given = self.data.get(tensor.name)
                memory[tensor.name] = (
                    garbage(prod(self._shape(tensor)), tensor.dtype)
                    if given is None
                    else np.array(given).reshape(-1)
                )
        for kernel in kernels:
            sizes = {p: self.parameters[p] for p in kernel.parameters}
            status = loop_interpreter.interpret(
                kernel, sizes, {b.name: memory[b.name] for b in kernel.buffers}
            )
            if status.code:
                raise ExecutionError("WEFT-E0922", kernel.messages[status.code - 1])
        return [memory[t.name] for t in scop.tensors if t.role == "output"]


def _all(kernel_pass: Callable[[Kernel], Kernel], kernels: Sequence[Kernel]) -> list[Kernel]:
    return [kernel_pass(kernel) for kernel in kernels]


def _scheduled(state: State) -> Scheduled:
    serial = initial(state.scop)
    return serial if state.tree is None else replace(serial, tree=state.tree)


def _refusal(original: Scop, made: Scheduled) -> str:
    """Why the checkers do not let ``made`` through; '' where they do."""
    try:
        prove(original, made)
    except (IllegalScheduleError, BudgetError) as error:
        return str(error)
    return ""


def _state_text(state: State) -> str:
    tree = "" if state.tree is None else print_schedule(state.tree)
    return scop_text(state.scop) + tree


# ---- Every state that a scheduler went through, as its named transformations returned them.
#
# Python's profiling hook sees the returns, so that the scheduler has no code for it. A
# transformation is the function of a module in ``polyhedral/transform`` that has the module's
# name.


_ROOM = "weft.polyhedral.transform."
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class State:
    """What ``transformation`` made: a Scop in the order of ``tree``, None for its initial one."""

    transformation: str
    scop: Scop
    tree: Tree | None


def watch(action: Callable[[], T]) -> tuple[T, list[State]]:
    """The result of ``action``, and the states in the order in which they were made."""
    states: list[State] = []

    def seen(frame: FrameType, event: str, value: object) -> None:
        if event != "return":
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_ROOM) or frame.f_code.co_name != module[len(_ROOM) :]:
            return
        made = value[0] if isinstance(value, tuple) and value else value
        match made:
            case Scheduled(_, scop, tree):
                states.append(State(frame.f_code.co_name, scop, tree))
            case Scop():
                states.append(State(frame.f_code.co_name, made, None))

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        return action(), states
    finally:
        sys.setprofile(before if callable(before) else None)  # a C profiler cannot be put back
