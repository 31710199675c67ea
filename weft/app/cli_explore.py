"""``weft explore``: which machines of a space are worth their silicon for a model."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

import weft
from weft.accel.machines.vta_space import vta_space
from weft.accel.space import Space
from weft.app.cli_models import CALIBRATED, inputs_for, made_by, source_of
from weft.app.cli_shared import progress, reported
from weft.driver.options import Options
from weft.ir.errors import CompileError
from weft.offload.accelerated import parts_of
from weft.offload.explore import Budget, Exploration, Explored, Layer, cycles_of, explore
from weft.offload.offload import Target
from weft.offload.quantization import integers_of, model_graph
from weft.runtime.files import write_atomically

POINTS = 64  # that are simulated if nobody says how many
_TIMES = {"s": 1.0, "m": 60.0, "h": 3600.0}
Values = dict[str, tuple[int, ...]]


def _budget(context: click.Context, parameter: click.Parameter, value: str) -> Budget:
    """``64`` or ``90s``, ``5m``, ``1h``."""
    match = re.fullmatch(r"(\d{1,9})([smh]?)", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is neither a number nor a time such as 90s or 5m")
    number, unit = match.groups()
    return Budget(seconds=int(number) * _TIMES[unit]) if unit else Budget(points=int(number))


def _values(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Values:
    """``block=16,32`` as ``{"block": (16, 32)}``."""
    found: Values = {}
    for text in given:
        name, equals, values = text.partition("=")
        parts = values.split(",")
        if not equals or not all(re.fullmatch(r"\d{1,9}", part) for part in parts):
            raise click.BadParameter(f"{text!r} is not of the form block=16,32")
        found[name] = tuple(dict.fromkeys(map(int, parts)))
    return found


@click.command("explore")
@click.option("--model", required=True, metavar="MODEL", help="As of `weft run`.")
@click.option(
    "--space", "space_name", default="vta", show_default=True, metavar="vta|FILE.py:FUNCTION",
    help="What makes the machines: Weft's own, or a function that returns a Space.",
)  # fmt: skip
@click.option(
    "--set", "values", multiple=True, callback=_values, metavar="NAME=VALUE,…",
    help="Other values of a parameter of the space; repeat it.",
)  # fmt: skip
@click.option(
    "--budget", callback=_budget, default=str(POINTS), show_default=True, metavar="N|TIME",
    help="Machines that are simulated, or a time such as 90s or 5m.",
)  # fmt: skip
@click.option(
    "--processes", type=click.IntRange(1, 256), help="By default, one for each processor."
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="All points, as JSON.")
@click.option("--picture", type=click.Path(path_type=Path), help="NAME.svg: cycles over area.")
@reported
def explore_(
    model: str,
    space_name: str,
    values: Values,
    budget: Budget,
    processes: int | None,
    json_path: Path | None,
    picture: Path | None,
) -> None:
    """The Pareto front of cycles and area for MODEL, over the machines of a space.

    All machines are ranked by closed forms; those on the front, and those that may be, are compiled
    and simulated. Models in floating point are quantised first.
    """
    if picture is not None and picture.suffix != ".svg":
        raise click.UsageError(f"--picture {picture}: pictures are SVG, NAME.svg")
    for path in (json_path, picture):
        if path is not None and not path.absolute().parent.is_dir():
            raise click.UsageError(f"{path}: there is no such folder")
    space = _space(space_name, values)
    with progress(f"reading {model}"):
        layers = layers_of(model, space)
    count = processes or len(os.sched_getaffinity(0))
    with progress(f"exploring {space.name}") as advance:
        found = explore(space, layers, budget, processes=count, advance=advance)
    _print(found, Console(highlight=False, soft_wrap=True))
    if json_path is not None:
        write_atomically(json_path, [json.dumps(data(found, model), indent=1).encode()])
    if picture is not None:
        write_atomically(picture, [svg(found, f"{model} on {space.name}").encode()])


def _space(name: str, values: Mapping[str, tuple[int, ...]]) -> Space:
    space = vta_space() if name == "vta" else made_by(name, Space, "--space")
    unknown = sorted(set(values) - set(space.parameters))
    if unknown:
        known = ", ".join(space.parameters)
        raise click.UsageError(f"--set: {space.name} has {known}, and no {unknown[0]}")
    parameters = {**space.parameters, **values}
    return Space(space.name, parameters, space.machine, space.area, space.instructions)


def layers_of(model: str, space: Space) -> list[Layer]:
    """What of ``model`` the largest machine of ``space`` computes; quantised, if it has to be."""
    machines = space.machines()
    if not machines:
        raise CompileError("WEFT-E1047", f"no point of the space {space.name} is a machine")
    target = Target.of(space.machine(max(machines, key=space.area)))
    options = Options.from_environment()
    _, source, sample = source_of(model)
    found = parts_of(integers_of(model_graph(source), options), target)
    if not found:
        declared = {value.name: value for value in model_graph(source).inputs}
        calls = [inputs_for(declared, sample, (), seed) for seed in range(1, 1 + CALIBRATED)]
        found = parts_of(weft.quantize(source, calls, options=options).graph, target)
    return [Layer(name, scop, times) for name, scop, times in found]


def data(found: Exploration, model: str) -> dict[str, object]:
    """All of it as JSON data."""
    return {
        "model": model,
        "space": found.space.name,
        "parameters": {name: list(values) for name, values in found.space.parameters.items()},
        "seconds": round(found.seconds, 1),
        "complete": found.complete,
        "refused": dict(found.refused),
        "front": [_row(each) for each in found.front],
        "points": [_row(each) for each in found.explored],
    }


def _row(each: Explored) -> dict[str, object]:
    return {
        **each.point,
        "area": round(each.area),
        "estimate": round(each.estimate),
        "cycles": each.cycles,
    }


def _print(found: Exploration, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    columns: Sequence[str] = (*found.space.parameters, "area", "estimate", "cycles")
    for column in columns:
        table.add_column(column, justify="right")
    for each in found.front:
        table.add_row(*(f"{value:,}" for value in _row(each).values()))
    console.print(table)
    simulated = sum(each.cycles is not None for each in found.explored)
    console.print(
        f"{len(found.explored):,} machines of {found.space.name}, {simulated} simulated, "
        f"{len(found.front)} on the front; {found.seconds:.0f} s"
    )
    for why, count in found.refused.items():
        console.print(f"{count:,} cannot compute it: {why}")
    if not found.complete:
        console.print("the budget ended before all that may be on the front were simulated")


# ---- An exploration as a picture: cycles over area, both logarithmic, as SVG.


WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 760, 480, 76, 34, 52, 20
STYLE = (
    "text{font:12px sans-serif;fill:#333}.grid{stroke:#ddd}.estimate{fill:#bbb}"
    ".simulated{fill:#3b7dd8}.front{fill:#d1495b}.line{stroke:#d1495b;fill:none}"
)
Place = Callable[[float], float]


def svg(found: Exploration, title: str) -> str:
    """Points by closed forms (grey), simulated (blue), the front (red); names in tooltips."""
    areas = [each.area for each in found.explored]
    heights = [cycles_of(each) for each in found.explored]
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
    steps = " ".join(f"{x(e.area):.1f},{y(cycles_of(e)):.1f}" for e in front)
    lines.append(f'<polyline class="line" points="{steps}"/>')
    lines += [_dot(each, x, y, "estimate", 2) for each in found.explored if each.cycles is None]
    lines += [_dot(each, x, y, "simulated", 3) for each in found.explored if each.cycles]
    lines += [_dot(each, x, y, "front", 4) for each in front]
    return "\n".join([*lines, "</svg>", ""])


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
        f'<circle class="{kind}" cx="{x(each.area):.1f}" cy="{y(cycles_of(each)):.1f}" r="{size}">'
        f"<title>{escape(name)}: {cycles_of(each):,.0f} cycles, area {each.area:,.0f}</title>"
        "</circle>"
    )
