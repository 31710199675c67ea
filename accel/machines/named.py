"""Machines by the name that files have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.accel.machines.vta import Config, vta
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CompileError


def _vta(configuration: Mapping[str, object]) -> Accelerator:
    return vta(Config(**configuration))  # type: ignore[arg-type]  # it checks


# Name -> the machine of a configuration.
MACHINES: dict[str, Callable[[Mapping[str, object]], Accelerator]] = {"vta": _vta}


def machine_named(name: str, configuration: Mapping[str, object]) -> Accelerator:
    """Raises ``CompileError`` (WEFT-E1023, and as the machine does for its configuration)."""
    if name not in MACHINES:
        raise CompileError(
            "WEFT-E1023",
            f"no machine is known as {name!r}",
            why=f"known are {', '.join(MACHINES)}",
            hint="say which function makes it: --machine FILE.py:FUNCTION",
        )
    try:
        return MACHINES[name](configuration)
    except TypeError as error:
        raise CompileError(
            "WEFT-E1023", f"no configuration of {name}: {dict(configuration)}", why=str(error)
        ) from None
