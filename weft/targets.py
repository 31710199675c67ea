"""Which processor a compilation is for: ``Options.target`` as a record."""

from __future__ import annotations

from weft.codegen.machines.host import host
from weft.codegen.machines.named import target_named
from weft.codegen.target import Target
from weft.options import Options


def target_for(options: Options) -> Target:
    """The record of ``options.target``. Raises ``CompileError`` (WEFT-E0002) if there is none."""
    return host() if options.target == "host" else target_named(options.target)
