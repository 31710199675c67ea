"""Machines with what they can do, made once for all tests of a process."""

from __future__ import annotations

from functools import cache

from weft.accel.capabilities import Compute
from weft.accel.machines.vta import Config, vta
from weft.offload.offload import Target

SMALL = Config(log_batch=1, log_block=3, log_uop_buff_size=6, log_inp_buff_size=10,
               log_wgt_buff_size=12, log_acc_buff_size=12)  # fmt: skip


@cache
def target(config: Config | None = None) -> Target:
    return Target.of(vta(config))


def compute(name: str, config: Config | None = None) -> Compute:
    """What operation ``name`` of VTA computes."""
    return next(c for c in target(config).capabilities.computes if c.operation.name == name)
