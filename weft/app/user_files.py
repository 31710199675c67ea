"""Python files that the command line names, run as ``python FILE.py`` runs them."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.driver.seeds import SEEDS
from weft.ir.errors import WeftError, line_of

SUFFIX = ".py"


def split(text: str) -> tuple[str, str] | None:
    """``FILE.py:NAME`` as file and name, ``FILE.py`` with ''; None: ``text`` is no such file."""
    if text.endswith(SUFFIX):
        return text, ""
    path, colon, name = text.rpartition(":")
    return (path, name) if colon and path.endswith(SUFFIX) else None


@contextmanager
def beside(path: str) -> Iterator[None]:
    """Meanwhile modules in the folder of the file ``path`` can be imported."""
    folder = str(Path(path).resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:  # which the file may have changed
            sys.path.remove(folder)


def names_of(path: str) -> dict[str, Any]:
    """What the file ``path`` defines, which is run for it. Raises ``WeftError``: Weft's own of
    what it defines, WEFT-E0800 where it fails otherwise."""
    try:
        with beside(path):
            return runpy.run_path(path)
    except WeftError:
        raise
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        raise WeftError(
            "WEFT-E0800",
            f"{path} failed to run",
            where=line_of(error, path),
            why=f"{type(error).__name__}: {error}",
            hint="FILE.py:KERNEL and --seeds run a file as `python FILE.py` does, from any folder",
        ) from None


def seeds_named(texts: Sequence[str]) -> tuple[Any, ...]:
    """For ``Options.seeds``: each of ``texts`` is the name of a registered seed, FILE.py for all
    that this file registers, or FILE.py:NAME for a function of it.

    Raises ``WeftError`` (WEFT-E0810) for a file that has none.
    """
    return tuple(seed for text in texts for seed in _seeds_of(text))


def _seeds_of(text: str) -> list[Any]:
    parts = split(text)
    if parts is None:
        return [text]
    path, name = parts
    defined = names_of(path)
    own = [n for n in SEEDS.names() if any(v is SEEDS.known(n) for v in defined.values())]
    if not name and own:
        return own
    if name in own:
        return [name]
    if callable(defined.get(name)):
        return [defined[name]]
    raise WeftError(
        "WEFT-E0810",
        f"{text} is no seed",
        why=f"the file registers {', '.join(own) or 'none'}",
        hint="FILE.py with functions under @weft.seed, or FILE.py:NAME: docs/extending.md",
    )
