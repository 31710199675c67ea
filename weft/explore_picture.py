"""An exploration as a picture: cycles over area, both logarithmic, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10

from weft.explore import Exploration, Explored

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 480, 76, 34, 52, 20
STYLE = (
    "text{font:12px sans-serif;fill:#333}.grid{stroke:#ddd}.estimate{fill:#bbb}"
    ".simulated{fill:#3b7dd8}.front{fill:#d1495b}.line{stroke:#d1495b;fill:none}"
)
Place = Callable[[float], float]


def svg(found: Exploration, title: str) -> str:
    """Points by closed forms (grey), simulated (blue), the front (red); names in tooltips."""
    areas = [each.area for each in found.explored]
    heights = [_cycles(each) for each in found.explored]
    x = _scale(areas, LEFT, WIDTH - RIGHT)
    y = _scale(heights, HEIGHT - BOTTOM, TOP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" height="{HEIGHT}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20">{escape(title)}</text>',
        f'<text x="{WIDTH // 2}" y="{HEIGHT - 12}">area (arbitrary units)</text>',
        f'<text transform="translate(16 {HEIGHT // 2}) rotate(-90)">cycles</text>',
    ]
    for tick in _ticks(areas):
        lines.append(_line(x(tick), TOP, x(tick), HEIGHT - BOTTOM))
        lines.append(_label(x(tick), HEIGHT - BOTTOM + 18, tick, "middle"))
    for tick in _ticks(heights):
        lines.append(_line(LEFT, y(tick), WIDTH - RIGHT, y(tick)))
        lines.append(_label(LEFT - 6, y(tick) + 4, tick, "end"))
    front = found.front
    steps = " ".join(f"{x(e.area):.1f},{y(_cycles(e)):.1f}" for e in front)
    lines.append(f'<polyline class="line" points="{steps}"/>')
    lines += [_dot(each, x, y, "estimate", 2) for each in found.explored if each.cycles is None]
    lines += [_dot(each, x, y, "simulated", 3) for each in found.explored if each.cycles]
    lines += [_dot(each, x, y, "front", 4) for each in front]
    return "\n".join([*lines, "</svg>", ""])


def _cycles(each: Explored) -> float:
    return each.estimate if each.cycles is None else each.cycles


def _scale(values: Sequence[float], begin: float, end: float) -> Place:
    low, high = log10(min(values)) - 0.02, log10(max(values)) + 0.02
    return lambda value: begin + (log10(value) - low) / (high - low) * (end - begin)


def _ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten."""
    low, high = min(values), max(values)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    every = [m * 10.0**power for power in powers for m in (1, 2, 5)]
    return [tick for tick in every if low <= tick <= high]


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _label(x: float, y: float, value: float, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{value:,.0f}</text>'


def _dot(each: Explored, x: Place, y: Place, kind: str, size: int) -> str:
    name = ", ".join(f"{key} {value}" for key, value in each.point.items())
    return (
        f'<circle class="{kind}" cx="{x(each.area):.1f}" cy="{y(_cycles(each)):.1f}" r="{size}">'
        f"<title>{escape(name)}: {_cycles(each):,.0f} cycles, area {each.area:,.0f}</title>"
        "</circle>"
    )
