"""A library for C programs: compile, write it and its header, call it from C."""

# ruff: noqa: F821  (sizes of a signature are names in the function's body)

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import weft

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "smooth.h"

int main(int count, char **words) {
    int64_t n = count - 1;
    double *x = malloc(sizeof(double) * (n + 1)), *y = malloc(sizeof(double) * (n + 1));
    for (int64_t k = 0; k < n; k++) x[k] = atof(words[k + 1]);
    smooth_inputs inputs = {.weight = 0.25, .x = x, .y = y};
    smooth_sizes sizes = {.n = n};
    void *workspace = aligned_alloc(64, smooth_workspace_bytes(&sizes, 1));
    int status = smooth_run(&inputs, &sizes, 1, workspace);
    if (status != 0) return puts(smooth_message(status)), 1;
    for (int64_t k = 0; k < n; k++) printf("%.17g ", y[k]);
    return 0;
}
"""


@weft.kernel
def smooth(n: int, weight: weft.f64, x: weft.f64["n"], y: weft.f64["n"]):
    for i in range(n):
        if i > 0 and i < n - 1:
            y[i] = weight * (x[i - 1] + x[i + 1]) + (1 - 2 * weight) * x[i]
        else:
            y[i] = x[i]


x = np.array([1.0, 5.0, 2.0, 8.0, 3.0])
expected = x.copy()
expected[1:-1] = 0.25 * (x[:-2] + x[2:]) + 0.5 * x[1:-1]

with tempfile.TemporaryDirectory() as folder:
    library, header, main = (Path(folder) / name for name in ("smooth.o", "smooth.h", "main.c"))
    smooth.compile().export(library, header=header)
    print(header.read_text())
    print(f"{library.name}: {library.stat().st_size:,} bytes")
    if compiler := shutil.which("cc"):
        main.write_text(PROGRAM)
        program = Path(folder) / "main"
        subprocess.run([compiler, main, library, "-o", program, "-lm", "-pthread"], check=True)
        words = [str(program), *map(str, x)]
        printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert np.allclose([float(word) for word in printed.split()], expected, rtol=1e-15)
        print("from C:", printed)
    else:
        print("there is no C compiler here to call it with")
