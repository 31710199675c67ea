"""A price in words: what the estimate consists of, the bound, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.ir.errors import WeftError
from weft.ir.machine import Machine
from weft.polyhedral.analysis.counting import LARGE
from weft.polyhedral.cost.price import Price, price
from weft.polyhedral.transform.scheduled import Scheduled


@dataclass(frozen=True, slots=True)
class Told:
    """A price of one thread, where there is one, at these ``sizes``; else ``why`` not."""

    price: Price | None
    sizes: Mapping[str, int] = field(default_factory=dict)
    why: str = ""

    @property
    def at(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.sizes.items())


def told(scheduled: Scheduled, machine: Machine, sizes: Mapping[str, int] | None = None) -> Told:
    """The price of ``scheduled`` on one thread; sizes that are not given are large ones. Never
    raises."""
    derived = {name for name, _ in scheduled.scop.derived}
    open_ = [name for name in scheduled.scop.parameters if name not in derived]
    values = dict.fromkeys(open_, LARGE) | dict(sizes or {})
    try:
        found = price(scheduled, machine, 1, values)
    except (WeftError, ArithmeticError, RecursionError) as error:
        return Told(None, why=f"no estimate: {error}".splitlines()[0])
    return Told(found, {name: values[name] for name in open_})


def price_lines(known: Told) -> list[str]:
    """Some lines for ``explain``."""
    found = known.price
    if found is None:
        return [known.why]
    most = max(found.parts.values(), default=0.0)
    ranked = sorted(found.parts.items(), key=lambda part: -part[1])
    clock = found.frequency
    parts = ", ".join(f"{n} {time_text(c / clock)}" for n, c in ranked if c and c * 100 > most)
    moved = ", ".join(f"{name} {_scaled(n, 'B', BYTES)}" for name, n in found.moved.items())
    at = f" for {known.at}" if known.at else ""
    return [
        f"estimate {time_text(found.seconds)}{at}: {parts or 'nothing to do'}",
        f"operations {found.operations:.3g}; bytes into {moved}",
        bound_text(found),
    ]


def bound_text(found: Price) -> str:
    """``bound 1.2 ms, by arithmetic``"""
    if not found.bound:
        return "no bound is known"
    return f"bound {time_text(found.bound / found.frequency)}, by {found.limit}"


def time_text(seconds: float) -> str:
    """``1.9 ms``"""
    return _scaled(seconds, "s", TIMES)


TIMES = (("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9))
BYTES = (("Gi", float(1 << 30)), ("Mi", float(1 << 20)), ("Ki", 1024.0), ("", 1.0))


def _scaled(value: float, unit: str, scales: tuple[tuple[str, float], ...]) -> str:
    prefix, scale = next((each for each in scales if value >= each[1]), scales[-1])
    return f"{value / scale:.3g} {prefix}{unit}"
