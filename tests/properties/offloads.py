"""Random work for accelerators, from expressions to streams that are simulated.

    random case → stream → checked → simulated in four orders of the queues, memories poisoned

against NumPy, exactly, on VTA in several configurations, and byte for byte through its functional
simulator (``tests/accel/vta_oracle.py``); every other case in a tiling by chance,
not the best one. Then each of its tokens is left out, at both of its ends and at either one: the
checker has to refuse every such stream. What an accelerator refuses to compute is counted by its
reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import prod
from random import Random

import numpy as np

from tests.accel.vta_oracle import Crash, interpret
from tests.properties.alarm import Late, alarm
from tests.properties.examine import Outcome
from tests.properties.offload_cases import Array, Case, random_case
from weft.accel.artifact import Artifact
from weft.accel.execution_order import ORDERS, Order
from weft.accel.machines.vta import Config, vta
from weft.accel.mapping import Mapping as Mapped
from weft.accel.place import Offloaded, place
from weft.accel.refusal import Refusal
from weft.accel.tiling import Tiling, slots_for, views
from weft.ir.errors import CompileError, StreamError
from weft.ir.instruction_stream import Issue
from weft.offload.offload import Target, offload, ways
from weft.offload.simulator import check_stream, simulate
from weft.polyhedral.from_tensor_expr import lower

CONFIGS = (
    Config(),
    Config(log_batch=1),
    Config(log_batch=2, log_block=2, log_acc_buff_size=15, log_wgt_buff_size=14),
    Config(log_block=3, log_uop_buff_size=12, log_wgt_buff_size=15, log_inp_buff_size=14,
           log_acc_buff_size=15),
    Config(log_block=5, log_wgt_buff_size=19, log_inp_buff_size=16, log_acc_buff_size=17),
    Config(log_uop_buff_size=10, log_inp_buff_size=12, log_wgt_buff_size=14, log_acc_buff_size=14),
    Config(log_uop_buff_size=10, log_acc_buff_size=15),
    Config(log_batch=1, log_block=3, log_uop_buff_size=6, log_inp_buff_size=10,
           log_wgt_buff_size=12, log_acc_buff_size=12),
    Config(log_uop_buff_size=4, log_acc_buff_size=13),
)  # fmt: skip
EVERY: tuple[Order, ...] = (*ORDERS, 7)
TILES = 60  # of a tiling that nobody would choose
SECONDS = 300  # for one case; one that takes longer hangs
End = tuple[int, str]  # of a token: an instruction and its flag


@cache
def target_of(number: int) -> Target:
    return Target.of(vta(CONFIGS[number]))


def examine(seed: int, dropped: int | None = None) -> Outcome:
    """Case ``seed``, with so many tokens left out; None: with each of them."""
    case, number = random_case(seed), Random(f"config {seed}").randrange(len(CONFIGS))
    text = f"on configuration {number}: {case.text}"
    try:
        with alarm(SECONDS):
            outcome = _examine(case, target_of(number), seed, dropped)
    except Late as late:
        return Outcome("hang", f"{late} {text}")
    except Exception as error:
        return Outcome("crash", f"{type(error).__name__}: {error} {text}")
    outcome.notes[f"configuration {number}"] += 1
    outcome.notes[f"kind {case.text.split(' of ')[0].split(' (')[0]}"] += 1
    return replace(outcome, problem=f"{outcome.problem} {text}") if outcome.problem else outcome


def _examine(case: Case, target: Target, seed: int, dropped: int | None) -> Outcome:
    constants = {name: case.inputs[name] for name in case.constants}
    scop, pick = lower(case.program, "offloaded"), Random(f"stream {seed}")
    try:
        made = offload(scop, target, constants, buffers=2 if seed % 5 else 1)
    except CompileError as error:
        return Outcome(f"refused: {error.why}")
    other = tiled_by_chance(ways(scop, target), target, constants, pick) if seed % 2 else None
    outcome = _examined(made if other is None else other, case, target, pick, dropped)
    outcome.notes["tiled by chance"] += other is not None
    return outcome


def tiled_by_chance(
    every: Sequence[Mapped], target: Target, constants: dict[str, Array], pick: Random
) -> Offloaded | None:
    """The stream of a tiling that nobody would choose, of any way, if one of a few fits."""
    for _ in range(6):
        best = pick.choice(every)
        sizes = {dim: pick.choice((n, n, 1, pick.randint(1, n))) for dim, n in best.extents.items()}
        order = [dim for dim, n in best.extents.items() if sizes[dim] < n]
        if prod(-(-n // sizes[dim]) for dim, n in best.extents.items()) > TILES:
            continue
        pick.shuffle(order)
        spread = frozenset(n for n in range(1, len(views(best))) if pick.random() < 0.3)
        slots = slots_for(best, target.plain, sizes, tuple(order), spread, pick.choice((1, 2, 2)))
        if slots is not None:
            tiling = Tiling(best, sizes, tuple(order), slots, spread)
            try:
                return place(
                    target.machine, target.plain, target.capabilities, tiling, constants, {}
                )
            except Refusal:
                continue
    return None


def _examined(
    made: Offloaded, case: Case, target: Target, pick: Random, dropped: int | None
) -> Outcome:
    try:
        check_stream(made.artifact, target.semantics)
    except StreamError as error:
        return Outcome("compiled", f"the checker refuses it: {error}")
    image = made.artifact.filled(made.prepared(case.inputs))
    for order in EVERY:
        try:
            found = made.results(
                simulate(made.artifact.stream, image, order=order, semantics=target.semantics)
            )
        except StreamError as error:
            return Outcome("compiled", f"simulated, {order}: {error}")
        if found.dtype != case.expected.dtype or not np.array_equal(found, case.expected):
            return Outcome("compiled", f"wrong result, {order}")
    try:
        code = made.artifact.stream.encode()
        found = made.results(interpret(Config(**target.machine.configuration), code, image))
    except Crash as crash:
        return Outcome("compiled", f"as emitted, VTA's functional simulator ends: {crash}")
    if not np.array_equal(found, case.expected):
        return Outcome("compiled", "wrong result, as emitted by VTA's functional simulator")
    notes = Counter({"instructions": len(made.artifact.stream.issues)})
    every = list(tokens(made.artifact))
    chosen = every if dropped is None or len(every) <= dropped else pick.sample(every, dropped)
    notes.update({"tokens": len(every), "tokens left out": len(chosen)})
    missed = unnoticed(made.artifact, target, chosen, notes)
    return Outcome("compiled", "; ".join(f"nobody misses {ends}" for ends in missed), notes)


def tokens(artifact: Artifact) -> Iterator[tuple[End, End]]:
    """Who gives each token and who takes it: on one wire, the first that is given is the first that
    is taken."""
    stream = artifact.stream
    for wire in stream.accelerator.wires:
        gives = [n for n, issue in enumerate(stream.issues) if wire in stream.pushes(issue)]
        takes = [n for n, issue in enumerate(stream.issues) if wire in stream.pops(issue)]
        for give, take in zip(gives, takes, strict=True):
            yield (give, wire.push), (take, wire.pop)


def without(artifact: Artifact, ends: Sequence[End]) -> Artifact:
    """``artifact`` whose instructions do not have these flags."""
    issues = list(artifact.stream.issues)
    for number, flag in ends:
        fields = {n: v for n, v in issues[number].fields.items() if n != flag}
        issues[number] = Issue(issues[number].operation, fields)
    return replace(artifact, stream=replace(artifact.stream, issues=tuple(issues)))


def unnoticed(
    artifact: Artifact, target: Target, chosen: Sequence[tuple[End, End]], notes: Counter[str]
) -> list[tuple[End, ...]]:
    """Which of the tokens the checker does not miss, left out at both ends or at one; ``notes``:
    how often it refused a stream, by its code."""
    found = []
    for push, pop in chosen:
        ways: dict[str, tuple[End, ...]]
        ways = {"a token": (push, pop), "a push": (push,), "a pop": (pop,)}
        for name, ends in ways.items():
            try:
                check_stream(without(artifact, ends), target.semantics)
                found.append(ends)
            except StreamError as error:
                notes[f"without {name}: {error.code}"] += 1
    return found
