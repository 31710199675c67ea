"""Machines by the name that files have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.accel.machines.vta import Config, vta
from weft.ir.accelerator import Accelerator
from weft.ir.errors import CompileError
from weft.ir.registry import Place, Registry


def _vta(configuration: Mapping[str, object]) -> Accelerator:
    return vta(Config(**configuration))  # type: ignore[arg-type]  # it checks


def register_machine(name: str, found: object, place: Place, replace: bool = False) -> None:
    """Raises ``CompileError``: WEFT-E0005 for a name that is taken, E0006 for no accelerator."""
    if not isinstance(found, Accelerator):
        raise CompileError(
            "WEFT-E0006",
            f"accelerator {name} is a {type(found).__name__}, not a weft.hardware.Accelerator",
            where=place.text,
        )
    MACHINES.add(name, found, place, replace)


# Name -> the machine, or what makes that of a configuration.
Machine = Accelerator | Callable[[Mapping[str, object]], Accelerator]
MACHINES: Registry[str, Machine] = Registry("accelerator", "weft.accelerators", register_machine)
MACHINES.add("vta", _vta, Place("accel/machines/vta.py", ("vta",)))


def machine_named(name: str, configuration: Mapping[str, object]) -> Accelerator:
    """Raises ``CompileError`` (WEFT-E1023, and as the machine does for its configuration)."""
    found = MACHINES.find(name)
    if found is None:
        raise CompileError(
            "WEFT-E1023",
            f"no machine is known as {name!r}",
            why=f"known are {', '.join(MACHINES.names())}",
            hint="say which function makes it: --machine FILE.py:FUNCTION",
        )
    try:
        if not isinstance(found, Accelerator):
            return found(configuration)
        if configuration and configuration != found.configuration:
            raise TypeError(f"the one that is registered has {dict(found.configuration)}")
        return found
    except TypeError as error:
        raise CompileError(
            "WEFT-E1023", f"no configuration of {name}: {dict(configuration)}", why=str(error)
        ) from None
