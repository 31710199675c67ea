"""``python -m tests.properties.fuzz_compiler --n 300``: random programs, compiled, against the
tensor interpreter. Every failure is printed with its seed."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings

import numpy as np

from tests.properties.random_programs import Case, random_case
from weft.driver.compiler import compile_graph
from weft.driver.options import Options
from weft.graph.from_program import from_program
from weft.ir.errors import WeftWarning
from weft.ir.tensor_interpreter import interpret
from weft.ir.tensor_printer import program_text
from weft.ir.tensor_verifier import verify

OPTIONS = Options(cache=False, workers=0, threads=2)


def check(case: Case, seed: int) -> None:
    """Compile and compare; ``AssertionError`` where results differ, or the serial schedule was
    needed."""
    verify(case.program)
    inputs = case.arrays(seed)
    expected = interpret(case.program, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", WeftWarning)
        executable = compile_graph(from_program(case.program), OPTIONS)
    results = executable(*inputs)
    found = results if isinstance(results, tuple) else (results,)
    for tensor, value, reference in zip(case.program.outputs, found, expected, strict=True):
        if case.exact:
            np.testing.assert_array_equal(value, reference, err_msg=tensor.name)
        else:
            finite = np.abs(reference[np.isfinite(reference)])
            scale = float(np.max(finite, initial=1.0))
            np.testing.assert_allclose(
                value, reference, rtol=1e-3, atol=1e-4 * scale, err_msg=tensor.name
            )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--n", type=int, default=300)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--show", action="store_true", help="print the programs that fail")
    given = options.parse_args()
    failures, start = 0, time.perf_counter()
    for seed in range(given.seed, given.seed + given.n):
        case = random_case(seed)
        began = time.perf_counter()
        try:
            check(case, seed)
        except Exception as error:
            failures += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:1500]}", flush=True)
            if given.show:
                print(program_text(case.program))
                traceback.print_exc()
        seconds = time.perf_counter() - began
        if seconds > 10:
            print(f"seed {seed}: {seconds:.1f} s", flush=True)
    print(f"{given.n} programs, {failures} failures, {time.perf_counter() - start:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
