"""``weft tune``: plans that are faster for sure; ``weft records``: what was timed."""

from __future__ import annotations

import json
import runpy
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import weft
from weft.app.cli_models import source_of
from weft.app.cli_shared import (
    FAILED,
    as_json_option,
    print_json,
    progress,
    reported,
    shape_option,
    threads_option,
)
from weft.app.user_files import beside
from weft.driver.options import Options
from weft.host.onnx_shapes import Shapes
from weft.ir.errors import CompileError, WeftError
from weft.ir.plan import Plan
from weft.runtime.files import write_atomically
from weft.runtime.records import Records
from weft.tuner.cluster import serve
from weft.tuner.tune import DEFAULT, Tuned, seconds_of


def _budget(context: click.Context, parameter: click.Parameter, value: str) -> float:
    try:
        return seconds_of(value)
    except CompileError as error:
        raise click.BadParameter(str(error.hint)) from None


class _Tune(click.Command):
    """``weft tune MODEL…``; ``weft tune worker ADDRESS`` is another command."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if args[:1] == ["worker"]:
            return worker.make_context("worker", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("worker")
@click.argument("address", metavar="tcp://HOST:PORT")
@reported
def worker(address: str) -> None:
    """Time on this machine for the searches of a cluster, until its scheduler ends.

    One worker for each machine: two would disturb each other.
    """
    serve(address)


@click.command("tune", cls=_Tune)
@click.argument("models", nargs=-1, required=True, metavar="MODEL…")
@click.option(
    "--budget", default=DEFAULT, show_default=True, callback=_budget, metavar="TIME",
    help="For each: 90s, 5m or 1h.",
)  # fmt: skip
@click.option("--trials", type=click.IntRange(1), help="Candidates that are timed, at most.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of what is random.")
@click.option("--target", metavar="NAME", help="The processor to tune for.")
@shape_option
@threads_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="PLAN.json",
    help="The plan, for `weft compile --plan`; of several models, a folder for theirs.",
)  # fmt: skip
@click.option(
    "--records", "path", type=click.Path(path_type=Path), help="A file of records of its own."
)
@click.option(
    "--cluster", metavar="tcp://HOST:PORT",
    help="Time on the workers of this scheduler; `weft tune worker` is one.",
)  # fmt: skip
@click.option("--picture", type=click.Path(path_type=Path), help="NAME.svg: gain over time.")
@as_json_option
@reported
def tune(
    models: Sequence[str],
    budget: float,
    trials: int | None,
    seed: int,
    target: str | None,
    shapes: Shapes,
    threads: int | None,
    output: Path | None,
    path: Path | None,
    cluster: str | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Search plans that make each MODEL faster, and confirm them.

    MODEL: one of Weft's own, the path of an .onnx file, or FILE.py:FUNCTION, whose function
    returns a loop kernel and its arguments. The same command goes on where it was interrupted,
    and repeats a search that is done.
    """
    if picture is not None and picture.suffix != ".svg":
        raise click.UsageError(f"--picture {picture}: pictures are SVG, NAME.svg")
    several = len(models) > 1
    if several and output is not None and not output.is_dir():
        raise click.UsageError(f"-o {output}: there is no such folder")
    options = Options.from_environment()
    options = options if threads is None else replace(options, threads=threads)
    given = {"budget": budget, "trials": trials, "seed": seed, "target": target, "options": options,
             "shapes": shapes or None, "records": path, "cluster": cluster}  # fmt: skip
    rows: list[dict[str, Any]] = []
    failed = False
    for name in models:
        try:
            title, found = _tuned(name, **given)
            _write_found(found, title if several else "", output, picture)
        except WeftError as error:
            if not several:
                raise
            failed = True
            click.echo(f"{name}: {error}", err=True)
            rows.append({"name": name, "error": error.code})
            continue
        if not as_json:
            click.echo(str(found))
        rows.append({**found.data(), "name": title})
        if found.interrupted:
            break
    if as_json:
        print_json({"models": rows})
    if failed:
        raise click.exceptions.Exit(FAILED)


def _write_found(found: Tuned, title: str, output: Path | None, picture: Path | None) -> None:
    """The plan and the picture; ``title``: of one of several models, '' of the only one."""
    if output is not None:
        where = output / f"{title}.plan.json" if title else output
        _write(where, json.dumps(dict(found.plan), indent=1))
    if picture is not None:
        where = picture.with_stem(f"{picture.stem}-{title}") if title else picture
        _write(where, svg(found))


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, [text.encode()])
    except OSError as error:
        raise CompileError("WEFT-E1113", f"{path} cannot be written", why=str(error)) from None


def _source(name: str) -> tuple[str, Any, Any]:
    """Title, what is tuned, and the arguments of a call (None: made up)."""
    file, colon, function = name.rpartition(":")
    if colon and file.endswith(".py"):
        try:
            with beside(file):
                source, args = runpy.run_path(file)[function]()
        except (Exception, SystemExit) as error:  # a user's file may raise anything
            raise CompileError(
                "WEFT-E1104",
                f"{name} makes nothing to tune",
                why=f"{type(error).__name__}: {error}",
                hint="a function without arguments that returns a loop kernel and its arguments",
            ) from None
        return function, source, args
    title, source, sample = source_of(name)
    return title, source, None if sample is None else sample(0)


def _tuned(name: str, **given: Any) -> tuple[str, Tuned]:
    """The title of a model, and what is found for it."""
    title, source, args = _source(name)
    begun = time.monotonic()
    with progress(f"tuning {title}") as advance:

        def told(kernel: str, best: float) -> None:
            left = max(0.0, given["budget"] - (time.monotonic() - begun))
            advance(f"{kernel}: {best:.3f} times as fast, {left:.0f} s left")

        found: Tuned = weft.tune(source, args, tell=told, **given)
        return title, found


# ---- records -------------------------------------------------------------------------------------


@click.group()
def records() -> None:
    """What `weft tune` timed, and the plans that it confirmed."""


_file = click.option(
    "--records", "path", type=click.Path(path_type=Path), help="Another file than the user's."
)


def _opened(path: Path | None) -> Records:
    return Records(path or Options.from_environment().records)


@records.command("show")
@_file
@as_json_option
@reported
def show(path: Path | None, as_json: bool) -> None:
    """The confirmed plans."""
    with _opened(path) as kept:
        found = kept.shown()
        if as_json:
            rows = [{**asdict(a), **asdict(row), "at": at} for a, row, at in found]
            print_json({"file": str(kept.path), "confirmed": rows})
            return
        table = Table("when", "machine", "program", "gain", "low", "decisions")
        for about, row, at in found:
            when = datetime.fromtimestamp(at).isoformat(" ", "minutes")
            names = ", ".join(Plan.read(row.plan))
            gains = f"{row.gain:.3f}", f"{row.low:.3f}"
            table.add_row(when, about.machine, about.program[:8], *gains, names)
        Console(highlight=False).print(table)


@records.command("export")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@_file
@reported
def export(file: Path | None, path: Path | None) -> None:
    """All records as lines of JSON, into FILE or to standard output."""
    with _opened(path) as kept:
        lines = [f"{line}\n" for line in kept.exported()]
    if file is None:
        click.echo("".join(lines), nl=False)
    else:
        _write(file, "".join(lines))


@records.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@_file
@reported
def import_(file: Path, path: Path | None) -> None:
    """Add the lines of JSON in FILE; all of them, or none."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise CompileError("WEFT-E1113", f"{file} cannot be read", why=str(error)) from None
    with _opened(path) as kept:
        click.echo(f"{kept.take(lines, str(file))} records")


@records.command("prune")
@click.option("--days", type=click.FloatRange(0), help="Also those that are so many days old.")
@click.option("--machine", help="Also those of one machine, as `weft records show` names it.")
@_file
@reported
def prune(days: float | None, machine: str | None, path: Path | None) -> None:
    """Remove the records of other versions of Weft."""
    older = None if days is None else days * 86400
    with _opened(path) as kept:
        click.echo(f"{kept.prune(older=older, machine=machine)} records removed")


# ---- the picture ---------------------------------------------------------------------------------

WIDTH, HEIGHT, MARGIN = 720, 360, 48


def svg(found: Tuned) -> str:
    """Gain over time, a line for each kernel that gained."""
    lines = [o for o in found.outcomes if len(o.curve) > 1 and max(g for _, g in o.curve) > 1.0]
    longest = max([1.0, *(t for o in lines for t, _ in o.curve)])
    most = max([1.05, *(g for o in lines for _, g in o.curve)])

    def at(seconds: float, gain: float) -> str:
        x = MARGIN + seconds / longest * (WIDTH - 2 * MARGIN)
        y = HEIGHT - MARGIN - (gain - 1) / (most - 1) * (HEIGHT - 2 * MARGIN)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{MARGIN}" y="24">{escape(found.name)}: best gain over time, before it is'
        " confirmed</text>",
        f'<polyline points="{at(0, most)} {at(0, 1)} {at(longest, 1)}" fill="none" stroke="#888"/>',
        f'<text x="8" y="{MARGIN + 4}">{most:.2f}</text>',
        f'<text x="8" y="{HEIGHT - MARGIN + 4}">1.00</text>',
        f'<text x="{WIDTH - MARGIN - 20}" y="{HEIGHT - 16}">{longest:.0f} s</text>',
    ]
    for k, outcome in enumerate(lines):
        points, last = [at(0, 1)], 1.0
        for seconds, gain in outcome.curve:
            points += [at(seconds, last), at(seconds, gain)]
            last = gain
        hue = k * 137 % 360
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="hsl({hue},60%,45%)"'
            f' stroke-width="1.5"><title>{escape(outcome.name)}</title></polyline>'
        )
    return "\n".join([*parts, "</svg>\n"])
