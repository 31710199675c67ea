"""Affine statements on small sizes, interpreted after every pass down to loop IR.

scheduled                   where that is wrong, after each move        Scop interpreter
loop IR                     as built, and after each pass               loop interpreter
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import unwrap
from math import prod

import numpy as np

from weft.codegen.from_schedule import build_kernel
from weft.codegen.optimise_kernel import passes
from weft.driver.cluster_code import nests, prove
from weft.driver.schedule_advice import calls
from weft.driver.schedule_value import TRANSFORMATIONS, Schedule
from weft.ir import loop_interpreter, scop_interpreter
from weft.ir.errors import BudgetError, ExecutionError, IllegalScheduleError, WeftWarning
from weft.ir.loop_ir import Kernel
from weft.ir.loop_printer import print_kernel
from weft.ir.schedule_printer import print_schedule
from weft.ir.schedule_tree import Tree
from weft.ir.scop import Scop, Tensor
from weft.ir.scop_printer import scop_text
from weft.ir.size_arithmetic import evaluate
from weft.polyhedral.keep_order import keep_order
from weft.polyhedral.regroup_products import regroup_products
from weft.polyhedral.schedule_loops import schedule_loops as schedule
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.verify.ladder import Ladder
from weft.verify.oracle import Arrays, garbage


@dataclass(frozen=True, slots=True)
class State:
    """What ``move`` made: a Scop in the order of ``tree``, None for its initial one."""

    move: str
    scop: Scop
    tree: Tree | None = None


@dataclass(slots=True)
class ScopCheck:
    """Steps of ``ladder``. ``data``: by Scop tensor; ``results``: those tensors of which the ladder
    expects values, in order."""

    ladder: Ladder
    data: Mapping[str, np.ndarray]
    parameters: Mapping[str, int]
    results: Sequence[str]

    def rewritten(self, name: str, action: Callable[[], Scop]) -> Scop:
        """What pass ``name`` makes of affine statements."""
        scop = self.ladder.make(name, action)
        self._state(name, State("", scop))
        return scop

    def lowered(self, scop: Scop, given: Scheduled | None = None) -> None:
        """``scop`` scheduled, by ``given`` if there is one, and as loops after each pass."""
        if self.ladder.setting.options.strict:
            scop = keep_order(scop)
        else:
            scop = self.rewritten("regroup", partial(regroup_products, scop))
        scheduled = self._scheduled(scop) if given is None else given
        if given is not None:
            self._state("schedule", State("schedule", given.scop, given.tree))
        made, machine = nests(scheduled, scop.name), self.ladder.setting.machine
        kernels = self.ladder.make(
            "from_schedule",
            lambda: [build_kernel(n.scop, n.tree, n.scop.name, machine) for n in made],
        )
        self._kernels("from_schedule", scheduled.scop, kernels)
        for name, kernel_pass in passes(machine):
            kernels = self.ladder.make(name, partial(_all, kernel_pass, kernels))
            self._kernels(name, scheduled.scop, kernels)

    def _scheduled(self, scop: Scop) -> Scheduled:
        """The schedule that code is made of: the scheduler's own if the checkers let it through."""
        choose = partial(schedule, scop, self.ladder.setting.machine)
        try:
            made = self.ladder.make("schedule", choose)
        except (IllegalScheduleError, BudgetError):
            return initial(scop)
        refusal = _refusal(scop, made)
        if refusal:
            self._name_refused(made, refusal)
            return initial(scop)
        final = State("schedule", made.scop, made.tree)
        if self.ladder.problem(partial(self._interpreted, final)):
            for state in (*states(made), final):
                self._state(state.move, state)
        self.ladder.passed, self.ladder.text = "schedule", partial(_state_text, final)
        return made

    def _name_refused(self, made: Scheduled, refusal: str) -> None:
        """Say after which move the checkers refuse; what is compiled runs serially."""
        wrong = (s.move for s in states(made) if _refusal(made.original, _in_order(s)))
        text = f"schedule refused after {next(wrong, 'its last move')}, on a small instance"
        warnings.warn(f"{self.ladder.where}: {text}\n{refusal}", WeftWarning, stacklevel=6)

    def _state(self, name: str, state: State) -> None:
        self.ladder.step(name, partial(_state_text, state), partial(self._interpreted, state))

    def _interpreted(self, state: State) -> Arrays:
        tensors = {t.name: t for t in state.scop.tensors}
        parameters = self._parameters(state.scop)
        data = {
            name: array.reshape(_shape(tensors[name], parameters))
            for name, array in self.data.items()
            if name in tensors
        }
        found = scop_interpreter.interpret(state.scop, data, parameters, tree=state.tree)
        return [found[name] for name in self.results]

    def _parameters(self, scop: Scop) -> dict[str, int]:
        """Those of the first Scop, and what later ones derive from them."""
        known = dict(self.parameters)
        for name, value in scop.derived:
            known[name] = evaluate(value, known)
        return known

    def _kernels(self, name: str, scop: Scop, kernels: Sequence[Kernel]) -> None:
        self.ladder.step(
            name,
            lambda: "\n".join(map(print_kernel, kernels)),
            lambda: self._run_kernels(scop, kernels),
        )

    def _run_kernels(self, scop: Scop, kernels: Sequence[Kernel]) -> Arrays:
        memory, parameters = {}, self._parameters(scop)
        for tensor in scop.tensors:
            if tensor.scope == "global":
                given = self.data.get(tensor.name)
                memory[tensor.name] = (
                    garbage(prod(_shape(tensor, parameters)), tensor.dtype)
                    if given is None
                    else np.array(given).reshape(-1)
                )
        for kernel in kernels:
            sizes = {p: parameters[p] for p in kernel.parameters}
            status = loop_interpreter.interpret(
                kernel, sizes, {b.name: memory[b.name] for b in kernel.buffers}
            )
            if status.code:
                raise ExecutionError("WEFT-E0922", kernel.messages[status.code - 1])
        return [memory[name] for name in self.results]


def _shape(tensor: Tensor, parameters: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(size, parameters) for size in tensor.shape)


def _all(kernel_pass: Callable[[Kernel], Kernel], kernels: Sequence[Kernel]) -> list[Kernel]:
    return [kernel_pass(kernel) for kernel in kernels]


def _in_order(state: State) -> Scheduled:
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


def states(made: Scheduled) -> Iterator[State]:
    """What each move of the script of ``made`` leads to."""
    script = "\n".join(["s = weft.schedule(x)", *(f"s = s.{step}" for step in made.steps)])
    now = initial(made.original, made.instructions)
    for move, arguments, named in calls(script, TRANSFORMATIONS):
        now = unwrap(getattr(Schedule, move))(now, *arguments, **named)  # without its proof
        yield State(move, now.scop, now.tree)
