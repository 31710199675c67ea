"""What all commands of ``weft`` share: errors and warnings as a user should see them, JSON."""

from __future__ import annotations

import functools
import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn, ParamSpec

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from weft.host.onnx_shapes import Bounds, Shapes
from weft.ir.errors import WeftError, WeftWarning

P = ParamSpec("P")

DIFFERENT, FAILED, MISUSED, INTERRUPTED = 1, 2, 64, 130

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object, errors included."
)


_SIZE = re.compile(r"(\d+)(?:(\.\.)(\d*))?|\?")


def _sizes(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Shapes:
    """``x=1..64,3,?,224`` as ``{"x": ((1, 64), 3, None, 224)}``."""
    shapes: dict[str, tuple[int | Bounds | None, ...]] = {}
    for value in values:
        name, equals, sizes = value.rpartition("=")
        found = [_SIZE.fullmatch(size) for size in sizes.split(",") if size]
        if not equals or None in found:
            raise click.BadParameter(f"{value!r} is not of the form x=1..64,3,?,224")
        shapes[name] = tuple(_size(*match.groups()) for match in found if match is not None)
    return shapes


def _size(first: str | None, dots: str | None, last: str | None) -> int | Bounds | None:
    if first is None:
        return None
    return (int(first), int(last) if last else None) if dots else int(first)


def _numbers(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, int]:
    """``N=300`` as ``{"N": 300}``."""
    numbers: dict[str, int] = {}
    for value in values:
        name, _, number = value.rpartition("=")
        if not name or not re.fullmatch(r"\d+", number):
            raise click.BadParameter(f"{value!r} is not of the form N=300")
        numbers[name] = int(number)
    return numbers


size_option = click.option(
    "--size",
    "numbers",
    multiple=True,
    callback=_numbers,
    metavar="NAME=NUMBER",
    help="Of a loop kernel: estimate for that size instead of 1000.",
)
threads_option = click.option("--threads", type=click.IntRange(1, 1024), help="Threads of a call.")
shape_option = click.option(
    "--shape",
    "shapes",
    multiple=True,
    callback=_sizes,
    metavar="NAME=SIZES",
    help="Open sizes of an input: numbers, ranges of what stays open, ? for what the model says:"
    " x=1..64,3,224,224.",
)


class Address(click.ParamType[int]):
    """A number of bytes: 65536 or 0x10000."""

    name = "address"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            found = value if isinstance(value, int) else int(str(value), 0)
        except ValueError:
            found = -1
        if found < 0:
            self.fail(f"{value}: no address, such as 65536 or 0x10000")
        return found


def base_option(text: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """``--base ADDRESS``: where an image begins."""
    return click.option("--base", type=Address(), metavar="ADDRESS", help=text)


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Weft's errors and warnings as a user should see them, not as Python shows them."""

    @functools.wraps(command)
    def wrapper(*arguments: P.args, **options: P.kwargs) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default", WeftWarning)
            warnings.showwarning = _show_warning
            try:
                command(*arguments, **options)
            except WeftError as error:
                fail(error, as_json=bool(options.get("as_json")))

    return wrapper


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"warning: {message}", err=True)


def fail(error: WeftError, *, as_json: bool, code: int = FAILED) -> NoReturn:
    if as_json:
        names = ("code", "what", "where", "why", "hint")
        click.echo(json.dumps({"error": {name: getattr(error, name) for name in names}}))
    else:
        click.echo(f"error: {error}", err=True)
    sys.exit(code)


def print_json(data: Mapping[str, object]) -> None:
    click.echo(json.dumps(data))


# ---- Progress on standard error: for what takes longer than a second, on a terminal only.


PATIENCE = 1.0  # seconds that may pass in silence


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """A bar that says ``what``; the function given back advances it and says how far things are.

    ``total``: steps in all, None where nobody knows.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[now]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=total, now="")
    timer = threading.Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda now: bar.update(task, advance=1 if total else 0, now=now)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


@contextmanager
def compile_progress(what: str, *, watched: bool) -> Iterator[None]:
    """The stage that the compiler is in, as its own log says; none where the user reads the log."""
    with progress(what) as advance:
        logger = logging.getLogger("weft")
        if watched or not sys.stderr.isatty():
            yield
            return
        handler = _Stages(advance)
        level, propagate = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate


class _Stages(logging.Handler):
    def __init__(self, advance: Callable[[str], None]) -> None:
        super().__init__()
        self.advance = advance

    def emit(self, record: logging.LogRecord) -> None:
        self.advance(f"after {record.name.removeprefix('weft.')}")
