"""Scripts of ``automatic()``, replayed: do they lead to the very code that ``compile`` makes?

    python -m tests.end_to_end.replay_scripts [--threads 1,2] [--only TEXT] [MODEL.onnx …]

PolyBench's kernels, the loop programs, and every cluster of the zoo's models, of PyTorch's (where
it is installed), and of the given ones.
A line for each that differs or raises; last, how many there are, and how long the longest is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import onnx

import weft
from weft.app.cli_shared import progress
from weft.benchmarks.loop_programs.run import PROGRAMS
from weft.benchmarks.polybench.run import SUITE
from weft.driver.schedule_value import Schedule
from weft.frontend.zoo.registry import MODELS
from weft.ir.dtypes import as_dtype


@dataclass(frozen=True, slots=True)
class Case:
    """A program and how it is compiled."""

    name: str
    source: Any
    options: weft.Options


def cases(threads: int, models: list[str]) -> Iterator[tuple[str, Callable[[], Case]]]:
    options = weft.Options(threads=threads, cache=False)
    kernels = {f"polybench {n}": b.make(as_dtype(b.dtype)) for n, b in SUITE.items()}
    kernels |= {f"loops {n}": p.kernel for n, p in PROGRAMS.items()}
    for name, kernel in kernels.items():
        yield name, lambda name=name, kernel=kernel: Case(name, kernel, options)  # type: ignore[misc]
    for name, entry in MODELS.items():
        yield name, lambda name=name, entry=entry: Case(name, entry.build(), options)  # type: ignore[misc]
    for name, architecture in architectures().items():
        yield f"torch {name}", lambda name=name, make=architecture: Case(name, make(), options)  # type: ignore[misc]
    for path in models:
        yield path, lambda path=path: Case(path, onnx.load(path), options)  # type: ignore[misc]


def architectures() -> dict[str, Callable[[], Any]]:
    """What makes an exported program of each of PyTorch's architectures that the tests know."""
    if not find_spec("torch") or not find_spec("transformers"):
        print("without PyTorch and transformers: none of their architectures")
        return {}
    import torch

    from weft.benchmarks.architectures.modules import MODELS as SMALL
    from weft.benchmarks.architectures.modules import TRANSFORMERS

    def export(make: Callable[[], Any]) -> Any:
        torch.manual_seed(0)
        model, args = make()
        return torch.export.export(model.eval(), args)

    return {name: partial(export, make) for name, make in {**SMALL, **TRANSFORMERS}.items()}


def replayed(case: Case) -> dict[str, str]:
    """The scripts of ``case`` by name. Raises ``AssertionError`` where one leads elsewhere."""
    scripts, again = dict[str, str](), dict[str, Schedule]()
    for name, start in weft.schedules(case.source, options=case.options).items():
        found = start.automatic()
        scripts[name] = str(found)
        again[name] = Schedule.from_script(str(found), start)
        assert again[name].tree_text() == found.tree_text(), f"{name}: another tree"
    wanted = weft.compile(case.source, options=case.options).source("llvm")
    made = weft.compile(case.source, options=case.options, schedule=again)
    assert made.source("llvm") == wanted, "other code"
    return scripts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="further ONNX models")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only", default="", help="a part of the names")
    given = parser.parse_args()
    bad, lengths = 0, list[tuple[int, str]]()
    for threads in map(int, given.threads.split(",")):
        todo = [(n, make) for n, make in cases(threads, given.models) if given.only in n]
        with progress(f"{threads} threads", len(todo)) as step:
            for name, make in todo:
                try:
                    scripts = replayed(make())
                    lengths += [(len(s.splitlines()), f"{name} {k}") for k, s in scripts.items()]
                except (weft.WeftError, AssertionError) as error:
                    bad += 1
                    print(f"{name}, {threads} threads: {error}")
                step(name)
    print(f"{len(lengths)} scripts replayed, {bad} programs differ")
    print("the longest: " + ", ".join(f"{n} lines ({k})" for n, k in sorted(lengths)[-3:]))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
