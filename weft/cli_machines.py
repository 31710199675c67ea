"""Accelerators as the command line names them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TypeVar

import click

from weft.accel.accelerator import Accelerator
from weft.accel.machines.named import MACHINES, machine_named
from weft.accel.machines.vta import Config, vta
from weft.errors import CompileError

Made = TypeVar("Made")


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
        return made_by(target, Accelerator, "--target")
    return None


def made_by(text: str, kind: type[Made], option: str) -> Made:
    """What the function of ``option FILE.py:FUNCTION`` makes, one of ``kind``.

    Raises ``CompileError`` (WEFT-E1027) where it makes nothing of the kind.
    """
    path, _, name = text.rpartition(":")
    if not path or not name.isidentifier():
        raise click.UsageError(f"{option} {text}: not of the form FILE.py:FUNCTION")
    what = f"{text} makes no {kind.__name__}"
    try:
        found = runpy.run_path(path)[name]()
    except Exception as error:  # a user's file may raise anything
        why = f"{type(error).__name__}: {error}"
        raise CompileError("WEFT-E1027", what, why=why) from None
    if not isinstance(found, kind):
        raise CompileError("WEFT-E1027", what, why=f"it returns a {type(found).__name__}")
    return found
