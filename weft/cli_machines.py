"""Accelerators as the command line names them."""

from __future__ import annotations

import runpy
from pathlib import Path

import click

from weft.accel.accelerator import Accelerator
from weft.accel.machines.named import MACHINES, machine_named
from weft.accel.machines.vta import Config, vta
from weft.errors import CompileError


def accelerator_named(target: str | None, config: Path | None) -> Accelerator | None:
    """The accelerator that ``--target`` names, by its name or as FILE.py:FUNCTION; None where it is
    a processor. ``config``: the file of VTA's configuration.

    Raises ``CompileError`` (WEFT-E1010, WEFT-E1027).
    """
    if config is not None and target != "vta":
        raise click.UsageError("--config is a configuration of --target vta")
    if config is not None:
        try:
            text = config.read_text("utf-8", "replace")
        except OSError as error:
            raise click.UsageError(f"--config {config}: {error.strerror}") from None
        return vta(Config.read(text))
    if target in MACHINES:
        return machine_named(target, {})
    if target is not None and ".py:" in target:
        return machine_made_by(target)
    return None


def machine_made_by(text: str) -> Accelerator:
    """What ``FILE.py:FUNCTION`` makes."""
    path, colon, name = text.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise click.UsageError(f"--machine {text}: not of the form FILE.py:FUNCTION")
    try:
        found = runpy.run_path(path)[name]()
    except Exception as error:  # a user's file may raise anything
        raise CompileError(
            "WEFT-E1027", f"{text} makes no machine", why=f"{type(error).__name__}: {error}"
        ) from None
    if not isinstance(found, Accelerator):
        raise CompileError(
            "WEFT-E1027", f"{text} makes no machine", why=f"it returns a {type(found).__name__}"
        )
    return found
