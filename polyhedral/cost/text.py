"""A price in words: what the estimate consists of, the bound, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping

from weft.ir.errors import WeftError
from weft.ir.machine import Machine
from weft.polyhedral.analysis.counting import LARGE
from weft.polyhedral.cost.price import price
from weft.polyhedral.transform.scheduled import Scheduled


def price_lines(
    scheduled: Scheduled, machine: Machine, sizes: Mapping[str, int] | None = None
) -> list[str]:
    """Some lines for ``explain``, of one thread; sizes that are not given are large ones. Never
    raises: where there is no price, the line says why."""
    derived = {name for name, _ in scheduled.scop.derived}
    open_ = [name for name in scheduled.scop.parameters if name not in derived]
    values = dict.fromkeys(open_, LARGE) | dict(sizes or {})
    try:
        found = price(scheduled, machine, 1, values)
    except (WeftError, ArithmeticError, RecursionError) as error:
        return [f"no estimate: {error}".splitlines()[0]]
    at = ", ".join(f"{name} = {values[name]}" for name in open_)

    def time(cycles: float) -> str:
        return _scaled(cycles / found.frequency, "s", TIMES)

    most = max(found.parts.values(), default=0.0)
    ranked = sorted(found.parts.items(), key=lambda part: -part[1])
    parts = ", ".join(f"{name} {time(c)}" for name, c in ranked if c and c * 100 > most)
    moved = ", ".join(f"{name} {_scaled(n, 'B', BYTES)}" for name, n in found.moved.items())
    bound = f"bound {time(found.bound)}, by {found.limit}" if found.bound else "no bound is known"
    return [
        f"estimate {time(found.estimate)}{f' for {at}' if at else ''}: {parts or 'nothing to do'}",
        f"operations {found.operations:.3g}; bytes into {moved}",
        bound,
    ]


TIMES = (("", 1.0), ("m", 1e-3), ("u", 1e-6))
BYTES = (("Gi", float(1 << 30)), ("Mi", float(1 << 20)), ("Ki", 1024.0))


def _scaled(value: float, unit: str, scales: tuple[tuple[str, float], ...]) -> str:
    for prefix, scale in scales:
        if value >= scale:
            return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value / 1e-9:.3g} ns" if unit == "s" else f"{value:.3g} {unit}"
