"""Random affine programs on a GPU: what the policy chooses is legal, its launches are free of races
and compute what the program does, and their text can be printed.

Blocks are small and reductions are a block's from a few turns on, so that small sizes have several
blocks, partial ones and sums through shared memory.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from random import Random

from tests.properties import executions
from tests.properties.examine import Outcome
from tests.properties.generators import NoPair
from tests.properties.random_affine import inputs_of
from tests.properties.random_schedules import subject_of
from tests.properties.scheduler import constants, described
from weft.codegen.cuda.print_cuda import print_cuda
from weft.codegen.from_schedule import build_kernel
from weft.codegen.machines.nvidia import H100
from weft.driver.cluster_code import nests, prove
from weft.driver.gpu_code import launches
from weft.ir.errors import CompileError, WeftWarning
from weft.polyhedral.policy import gpu as policy

SMALL = replace(H100, warp=2, block=6)
BLOCKS = ((policy, {"GROUPS": 2}),)


def examine(seed: int) -> Outcome:
    """Program ``seed`` under the schedule for a GPU."""
    try:
        affine = subject_of(seed).affine
    except NoPair as error:
        return Outcome(str(error))
    notes: Counter[str] = Counter()
    try:
        with constants(BLOCKS), warnings.catch_warnings():
            warnings.simplefilter("ignore", WeftWarning)
            made = policy.schedule_gpu(affine.scop, SMALL)
        notes.update({loop.kind for loop in made.loops()})
        prove(affine.scop, made)
        kernels = [
            launches(
                build_kernel(n.scop, n.tree, n.scop.name),
                [c.condition for c in n.scop.context],
            )[0]
            for n in nests(made, "f")
        ]
        values = Random(f"launches {seed}").choice(affine.sizes)
        inputs = inputs_of(affine.scop, values)
        expected = executions.run_original(affine.scop, values, inputs)
        text = executions.difference(
            executions.run_loop_ir(kernels, made.scop, values, inputs), expected
        )
        for kernel in kernels:
            notes["shared"] += "WEFT_SHARED" in print_cuda(kernel, SMALL).device
    except executions.Stopped:
        return Outcome("stopped by a check of data", "", notes)
    except CompileError as error:
        return Outcome(f"refused: {error.code}", "", notes)
    except Exception as crash:
        return Outcome("crash", f"{affine.family}: {described(crash)}", notes)
    return (
        Outcome("wrong", f"{affine.family} at {values}: {text}", notes)
        if text
        else Outcome("right", "", notes)
    )
