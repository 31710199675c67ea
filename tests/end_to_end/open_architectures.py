"""Well-known architectures with open sizes: exported and compiled once, right at sizes never seen.

    python -m tests.end_to_end.open_architectures                      all; a table
    python -m tests.end_to_end.open_architectures --only bert,resnet
    python -m tests.end_to_end.open_architectures --interpreted        without machine code: fast

Each is compared with PyTorch's eager mode at sizes that the export did not see: 1, primes, larger
and smaller. A condition that PyTorch's export or Weft puts on sizes refuses them by name, which
counts as "outside"; what is refused altogether stands in the table with its reason. Exits with 1
where a result is wrong, or where something is compiled anew.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import weft
from tests.frontend.torch.run_torch import interpreted
from weft.benchmarks.architectures.open_sizes import ARCHITECTURES, Architecture, largest_error
from weft.frontend.torch.exported import import_exported
from weft.ir.errors import CallError, WeftError

LARGEST = 1e-4  # of errors, relative to the largest element of a result


@dataclass(slots=True)
class Row:
    """What became of ``name``: ``error``, the largest of all results; ``compiled``, programs in the
    end; ``seconds`` of processor time to export and to compile; ``refused``, why."""

    name: str
    sizes: str
    right: int = 0
    outside: int = 0
    error: float = 0.0
    compiled: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    refused: str = ""

    @property
    def wrong(self) -> bool:
        """Whether a result was, or something was compiled for a call."""
        return self.error > LARGEST or self.compiled > 1

    def __str__(self) -> str:
        if self.refused:
            return f"{self.name:26}{self.sizes:14}{self.refused}"
        export, compile_ = self.seconds
        tried = f"{self.right} + {self.outside} outside" if self.outside else str(self.right)
        text = f"{self.name:26}{self.sizes:14}{tried:14}{self.error:9.1e}"
        return f"{text}{max(0, self.compiled - 1):10}{export:9.1f}{compile_:9.1f}"


HEAD = (
    f"{'architecture':26}{'open':14}{'sizes':14}{'error':>9}{'recompiled':>10}{'export':>9}"
    f"{'compile':>9}"
)


def examined(
    name: str, architecture: Architecture, compiler: Callable[[Any], tuple[Any, Callable[[], int]]]
) -> Row:
    """``architecture`` exported, compiled by ``compiler``, which says how many programs there are
    by now, and compared at all of its sizes."""
    row = Row(name, architecture.names)
    begin = time.process_time()
    try:
        model = architecture.seeded()
        exported = architecture.export(model)
    except Exception as error:  # PyTorch runs the model's own code
        row.refused = f"PyTorch: {type(error).__name__}: {_line(error)}"
        return row
    middle = time.process_time()
    try:
        program, compiled = compiler(exported)
    except WeftError as error:
        row.refused = f"{error.code}: {error.what}" + (f" ({error.why})" if error.why else "")
        return row
    row.seconds = middle - begin, time.process_time() - middle
    for sizes in architecture.tried:
        error = _error(model, program, architecture.arguments(*sizes))
        if error is None:
            row.outside += 1
        else:
            row.right, row.error = row.right + 1, max(row.error, error)
    row.compiled = compiled()
    return row


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:120]


def _error(model: torch.nn.Module, program: Any, arguments: tuple[Any, ...]) -> float | None:
    """The largest difference of the results for ``arguments``, relative to the largest element;
    None where a condition of the program excludes them."""
    with torch.no_grad():
        expected = model(*arguments)
    try:
        found = program(*arguments)
    except CallError as error:
        print("   ", error.code, error.what, error.why, error.where)
        return None
    return largest_error(found, expected)


def compiled(exported: Any) -> tuple[Any, Callable[[], int]]:
    """``exported`` as machine code."""
    program = weft.compile(exported, options=weft.Options(threads=1))
    return program, lambda: int(program.stats.get("compiled", 1))  # type: ignore[call-overload]


def as_imported(exported: Any) -> tuple[Any, Callable[[], int]]:
    """``exported`` as its operator graph says."""
    return interpreted(import_exported(exported)), lambda: 1


def rows(
    names: list[str], compiler: Callable[[Any], tuple[Any, Callable[[], int]]]
) -> Iterator[Row]:
    """What becomes of each of ``names``, in order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            yield examined(name, ARCHITECTURES[name], compiler)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="names, with commas")
    parser.add_argument("--interpreted", action="store_true", help="no machine code")
    given = parser.parse_args(arguments)
    wanted = [name.strip() for name in given.only.split(",")]
    names = [n for n in ARCHITECTURES if not given.only or n in wanted]
    print(HEAD)
    found = []
    for row in rows(names, as_imported if given.interpreted else compiled):
        found.append(row)
        print(row, flush=True)
    taken = [row for row in found if not row.refused]
    print(f"{len(taken)} of {len(found)}, {sum(row.wrong for row in found)} wrong")
    return any(row.wrong for row in found)


if __name__ == "__main__":
    sys.exit(main())
