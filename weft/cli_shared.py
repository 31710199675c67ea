"""What all commands of ``weft`` share: errors and warnings as a user should see them, JSON."""

from __future__ import annotations

import functools
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import NoReturn, ParamSpec

import click

from weft.errors import WeftError, WeftWarning

P = ParamSpec("P")

DIFFERENT, FAILED, MISUSED, INTERRUPTED = 1, 2, 64, 130

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object, errors included."
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
