"""What to say where memories of an accelerator are too small: how much, and what would do."""

from __future__ import annotations

from collections.abc import Mapping

from weft.accel.accelerator import Accelerator
from weft.accel.machines.named import MACHINES, machine_named
from weft.errors import WeftError

STEPS = 16  # by which one entry of a configuration is made larger, at most


def too_small(machine: Accelerator, missing: Mapping[str, int]) -> str:
    """``missing``: elements that are needed, of the memories that have fewer."""
    parts = []
    for name, count in missing.items():
        memory = machine.memory(name)
        have, size = memory.depth or 0, memory.nbytes
        parts.append(
            f"{count} elements of {name}, {count * size:,} bytes, where there are {have}, "
            f"{have * size:,} bytes"
        )
    found = nearest(machine, missing)
    more = ", ".join(f"{key} = {value}" for key, value in found.items())
    would = f" ({more} would do)" if more else ""
    return f"its smallest tile needs {' and '.join(parts)}{would}"


def nearest(machine: Accelerator, missing: Mapping[str, int]) -> dict[str, int]:
    """Entries of ``machine``'s configuration, as large as they have to be for that many elements;
    none where no entry is about one of these memories alone."""
    found: dict[str, int] = {}
    for name, count in missing.items():
        for key, value in machine.configuration.items():
            if type(value) is int and (least := _least(machine, name, count, key, value)):
                found[key] = least
                break
        else:
            return {}
    return found


def _least(machine: Accelerator, name: str, count: int, key: str, value: int) -> int:
    """The least value of ``key`` with ``count`` elements of ``name``, and elements as they are; 0:
    there is none."""
    if machine.name not in MACHINES:
        return 0
    for more in range(1, STEPS + 1):
        try:
            made = machine_named(machine.name, {**machine.configuration, key: value + more})
        except WeftError:
            return 0
        if any(m.shape != machine.memory(m.name).shape for m in made.memories):
            return 0
        if (made.memory(name).depth or 0) >= count:
            return value + more
    return 0
