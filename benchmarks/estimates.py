"""``python -m benchmarks estimates FILES``: what the cost model said of every row of the suites,
beside what was measured, from the files that they wrote with ``--json``.

Estimates are of one thread: rows on several have none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from statistics import median
from typing import Any, TypeGuard

from weft.ir.errors import WeftError
from weft.runtime.executable import Executable
from weft.tuner.confirm import spearman

Row = dict[str, Any]

NEAR = 2.0  # an estimate within this factor of the time


def estimates(
    program: object, threads: int, sizes: Mapping[str, int] | None = None
) -> dict[str, float]:
    """``estimate_ms`` and ``bound_ms`` of a call of ``program`` on one of ``threads``; nothing on
    several, and where there are none."""
    if threads > 1 or not isinstance(program, Executable):
        return {}
    try:
        found = program.estimate(sizes)
    except WeftError:
        return {}
    return {"estimate_ms": found.seconds * 1e3, "bound_ms": found.bound * 1e3}


@dataclass(frozen=True, slots=True)
class Point:
    """A row of a suite; times in milliseconds."""

    name: str
    measured: float
    estimate: float
    bound: float

    @property
    def violated(self) -> bool:
        """Whether it ran faster than any schedule can, as the model says."""
        return self.bound > self.measured

    @property
    def near(self) -> bool:
        """Whether the estimate is within ``NEAR`` times the time."""
        return 1 / NEAR <= self.estimate / self.measured <= NEAR


def points(rows: Iterable[Row]) -> list[Point]:
    """The ``rows`` that have an estimate and a time, but for those that time a call of nothing."""
    found = []
    for row in rows:
        if row.get("limit") == "":
            continue
        measured, estimate, bound = (
            row.get(f"{what}_ms") for what in ("weft", "estimate", "bound")
        )
        if _is_time(measured) and _is_time(estimate):
            name = str(row.get("name", row.get("kernel")))
            found.append(Point(name, measured, estimate, bound if _is_time(bound) else 0.0))
    return found


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 < value < math.inf


def summaries(suites: Mapping[str, Sequence[Point]]) -> Iterator[Row]:
    """A row for each suite, and one for all: how estimates rank the rows, the median of estimate
    over time, the share that is near, and how many ran faster than their bound."""
    for suite, found in {**suites, "all": [*chain(*suites.values())]}.items():
        if not found:
            yield {"suite": suite, "rows": 0, "right": True}
            continue
        slower = [point.name for point in found if point.violated]
        over = [p.measured / p.bound for p in found if p.bound]
        yield {
            "suite": suite,
            "rows": len(found),
            "spearman": round(
                spearman([p.estimate for p in found], [p.measured for p in found]), 3
            ),
            "median": round(median(p.estimate / p.measured for p in found), 3),
            "near": f"{sum(p.near for p in found) / len(found):.0%}",
            "of_bound": round(median(over), 2) if over else "",
            "violated": len(slower),
            "right": not slower,
            "note": ", ".join(slower),
        }


# ---- the picture ---------------------------------------------------------------------------------

WIDTH, HEIGHT, MARGIN, LEGEND = 760, 560, 56, 120
COLOURS = ("#3b7dd8", "#d1495b", "#3a7d44", "#e08e0b", "#7a4fb5", "#17879b", "#8a6d3b", "#555")


def chart(suites: Mapping[str, Sequence[Point]]) -> str:
    """Estimates over times, both logarithmic, as SVG: a colour for each suite, names in tooltips,
    and below each point, in grey, its bound, at the lower edge where that is below."""
    found = [point for each in suites.values() for point in each]
    times = [t for p in found for t in (p.measured, p.estimate)] or [1.0]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    high = max(high, low + 1)
    wide, tall = WIDTH - 2 * MARGIN - LEGEND, HEIGHT - 2 * MARGIN

    def x(ms: float) -> float:
        return MARGIN + wide * (math.log10(ms) - low) / (high - low)

    def y(ms: float) -> float:
        return HEIGHT - MARGIN - tall * (math.log10(ms) - low) / (high - low)

    def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
        return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'

    least, most = 10.0**low, 10.0**high
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{MARGIN}" y="28">estimate (coloured) and lower bound (grey) over time, in '
        f"milliseconds; dashed: {NEAR:g} times</text>",
    ]
    for power in range(low, high + 1):
        at = 10.0**power
        parts += [
            line(x(at), y(least), x(at), y(most), 'stroke="#e4e4e4"'),
            line(x(least), y(at), x(most), y(at), 'stroke="#e4e4e4"'),
            f'<text x="{x(at):.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{at:g}</text>',
            f'<text x="{MARGIN - 6}" y="{y(at) + 4:.1f}" text-anchor="end">{at:g}</text>',
        ]
    dashed = 'stroke="#999" stroke-dasharray="4 4"'
    parts += [
        line(x(least), y(least), x(most), y(most), 'stroke="#555"'),
        line(x(least), y(least * NEAR), x(most / NEAR), y(most), dashed),
        line(x(least * NEAR), y(least), x(most), y(most / NEAR), dashed),
    ]
    bounds = [(p, max(p.bound, least)) for p in found if p.bound]
    parts += [_dot(x(p.measured), y(bound), "#bbb", 1.5, p.name) for p, bound in bounds]
    for k, (suite, each) in enumerate(suites.items()):
        colour, top = COLOURS[k % len(COLOURS)], MARGIN + 20 * k
        parts += [_dot(x(p.measured), y(p.estimate), colour, 3, p.name) for p in each]
        parts += [
            _dot(WIDTH - LEGEND - 20, top + 6, colour, 4, suite),
            f'<text x="{WIDTH - LEGEND - 10}" y="{top + 10}">{escape(suite)} ({len(each)})</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])


def _dot(x: float, y: float, colour: str, radius: float, name: str) -> str:
    title = f"<title>{escape(name)}</title>"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{colour}">{title}</circle>'
