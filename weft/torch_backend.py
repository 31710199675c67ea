"""``torch.compile(model, backend="weft")``: Weft behind PyTorch's Dynamo.

model = torch.compile(model, backend="weft", options={"threads": 2})

PyTorch finds it by the entry point of this package. ``docs/pytorch.md`` says what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from weft.driver.options import Options, options_or_default
from weft.driver.targets import target_for
from weft.frontend.torch.aot import compile_traced
from weft.ir.errors import CompileError, did_you_mean
from weft.verify.verify_full import compile_and_verify

__all__ = ("backend",)


def backend(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """What runs in place of ``module``, a graph that Dynamo traced with ``example_inputs``.

    ``options``: fields of ``weft.Options`` by name. Operators that Weft lacks are left to PyTorch,
    with a ``WeftWarning`` that lists them. Raises ``CompileError``: WEFT-E0031 for another option
    or a ``mode``, E0001 for a value that is out of range; ``UnsupportedError`` (WEFT-E0270) for
    another version of PyTorch.
    """
    chosen = chosen_options(mode, options or {})
    target_for(chosen)
    return compile_traced(module, example_inputs, partial(compile_and_verify, options=chosen))  # type: ignore[no-any-return]


def chosen_options(mode: str | None, options: Mapping[str, object]) -> Options:
    """The options that ``torch.compile`` was given, as Weft's. Texts and explanations, which nobody
    can ask for, take a fifth of the time to compile: they are left out."""
    if mode not in (None, "default"):
        raise CompileError(
            "WEFT-E0031",
            f"mode={mode!r} has no meaning for Weft",
            hint='options={"threads": 2}, say: fields of weft.Options',
        )
    names = [field.name for field in fields(Options)]
    for name in options:
        if name not in names:
            raise CompileError(
                "WEFT-E0031",
                f"there is no option {name!r}",
                hint=did_you_mean(name, names) + "options: " + ", ".join(names),
            )
    return options_or_default(Options(**{"texts": False, **options}))  # type: ignore[arg-type]
