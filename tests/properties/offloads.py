"""Random work for accelerators, from expressions to streams that are simulated.

    random case → stream → checked → simulated in four orders of the queues, memories poisoned

against NumPy, exactly, on VTA in several configurations. Then every token is left out, at both of
its ends and at one: the checker has to refuse that, or the simulator not to end, or results to be
different. What an accelerator refuses to compute is counted by its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random

import numpy as np

from tests.properties.alarm import Late, alarm
from tests.properties.examine import Outcome
from tests.properties.offload_cases import Case, random_case
from weft.accel.artifact import Artifact
from weft.accel.instruction_stream import Issue
from weft.accel.machines.vta import Config, vta
from weft.accel.place import Offloaded
from weft.accel.service import ORDERS, Order
from weft.errors import CompileError, StreamError
from weft.offload import Target, offload
from weft.polyhedral.from_tensor_expr import lower
from weft.simulator import check_stream, simulate

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
)  # fmt: skip
EVERY: tuple[Order, ...] = (*ORDERS, 7)
DROPPED = 12  # tokens of a stream that are left out, each in three ways
SECONDS = 300  # for one case; one that takes longer hangs
Ends = tuple[tuple[int, str], ...]  # instruction and flag


@cache
def target_of(number: int) -> Target:
    return Target.of(vta(CONFIGS[number]))


def examine(seed: int, dropped: int = DROPPED) -> Outcome:
    """Case ``seed``, with so many tokens left out."""
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


def _examine(case: Case, target: Target, seed: int, dropped: int) -> Outcome:
    constants = {name: case.inputs[name] for name in case.constants}
    buffers = 2 if seed % 5 else 1
    try:
        made = offload(lower(case.program, "offloaded"), target, constants, buffers=buffers)
    except CompileError as error:
        return Outcome(f"refused: {error.why}")
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
    notes = Counter({"instructions": len(made.artifact.stream.issues)})
    pick = Random(f"tokens {seed}")
    every = list(tokens(made.artifact))
    notes["tokens"] += len(every)
    for push, pop in every if len(every) <= dropped else pick.sample(every, dropped):
        for ends in ((push, pop), (push,), (pop,)):
            notes["left out"] += 1
            if not _caught(made, without(made.artifact, ends), target, case):
                return Outcome("compiled", f"nobody misses {ends}", notes)
    return Outcome("compiled", "", notes)


def tokens(artifact: Artifact) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
    """Who gives each token and who takes it: on one wire, the first that is given is the first that
    is taken."""
    stream = artifact.stream
    for wire in stream.accelerator.wires:
        gives = [n for n, issue in enumerate(stream.issues) if wire in stream.pushes(issue)]
        takes = [n for n, issue in enumerate(stream.issues) if wire in stream.pops(issue)]
        for give, take in zip(gives, takes, strict=True):
            yield (give, wire.push), (take, wire.pop)


def without(artifact: Artifact, ends: Sequence[tuple[int, str]]) -> Artifact:
    """``artifact`` whose instructions do not have these flags."""
    issues = list(artifact.stream.issues)
    for number, flag in ends:
        fields = {n: v for n, v in issues[number].fields.items() if n != flag}
        issues[number] = Issue(issues[number].operation, fields)
    return replace(artifact, stream=replace(artifact.stream, issues=tuple(issues)))


def _caught(made: Offloaded, broken: Artifact, target: Target, case: Case) -> bool:
    """Whether anybody notices."""
    try:
        check_stream(broken, target.semantics)
        image = broken.filled(made.prepared(case.inputs))
        return not all(
            np.array_equal(
                made.results(
                    simulate(broken.stream, image, order=order, semantics=target.semantics)
                ),
                case.expected,
            )
            for order in EVERY
        )
    except StreamError:
        return True
