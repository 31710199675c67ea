"""Libraries as parts of larger C programs: side by side, opened and closed, under any names."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.weft.c_program import build, c_program, needs_c
from tests.weft.compiled_examples import chain
from weft.runtime.library import interface_of, write_library

pytestmark = needs_c

_TWO = """\
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "first.h"
#include "second.h"

enum { N = 100000, TURNS = 200 };
static float x[N], one[N], other[N];

static void *run_first(void *workspace) {
    first_inputs inputs = {x};
    first_outputs outputs = {one};
    first_sizes sizes = {N};
    int status = 0;
    for (int k = 0; k < TURNS; k++) status |= first_run(&inputs, &outputs, &sizes, 2, workspace);
    return status ? workspace : NULL;
}

static void *run_second(void *workspace) {
    second_inputs inputs = {x};
    second_outputs outputs = {other};
    second_sizes sizes = {N};
    int status = 0;
    for (int k = 0; k < TURNS; k++) status |= second_run(&inputs, &outputs, &sizes, 2, workspace);
    return status ? workspace : NULL;
}

int main(void) {
    pthread_t threads[4];
    first_sizes sizes = {N};
    size_t bytes = first_workspace_bytes(&sizes, 2);
    for (int k = 0; k < N; k++) x[k] = (float)k;
    for (int k = 0; k < 4; k++)
        if (pthread_create(&threads[k], NULL, k & 1 ? run_second : run_first,
                           aligned_alloc(64, bytes))) return 1;
    for (int k = 0; k < 4; k++) {
        void *failed;
        if (pthread_join(threads[k], &failed) || failed != NULL) return 2;
    }
    for (int k = 0; k < N; k++)
        if (one[k] != (x[k] + 3) * 2 || other[k] != one[k]) return 3;
    return 0;
}
"""


def test_two_libraries_in_one_program_at_the_same_time(tmp_path) -> None:
    for name in ("first", "second"):
        write_library(chain(), tmp_path / f"{name}.o", header=tmp_path / f"{name}.h", name=name)
    (tmp_path / "two.c").write_text(_TWO)
    build(tmp_path, "two", [tmp_path / "first.o", tmp_path / "second.o"])
    assert subprocess.run([tmp_path / "two"], timeout=60).returncode == 0


_LIFE = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "chain.h"

enum { N = 1000000 };
static float x[N], y[N];

/* Open it, call it on two threads, close it. */
static int once(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return puts(dlerror()), 1;
    size_t (*bytes)(const chain_sizes *, int);
    int (*run)(const chain_inputs *, const chain_outputs *, const chain_sizes *, int, void *);
    *(void **)&bytes = dlsym(library, "chain_workspace_bytes");
    *(void **)&run = dlsym(library, "chain_run");
    if (bytes == NULL || run == NULL) return 2;
    chain_inputs inputs = {x};
    chain_outputs outputs = {y};
    chain_sizes sizes = {N};
    void *workspace = aligned_alloc(64, bytes(&sizes, 2));
    y[N - 1] = -1;
    if (run(&inputs, &outputs, &sizes, 2, workspace) != 0 || y[N - 1] != 6) return 3;
    free(workspace);
    return dlclose(library) ? 4 : 0;
}

int main(int count, char **words) {
    if (count != 2) return 9;
    for (int k = 0; k < 3; k++)
        if (once(words[1])) return 1;
    usleep(20000); /* its threads go to sleep in code that must still be there */
    pid_t child = fork();
    if (child == 0) return once(words[1]);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0) return 2;
    return once(words[1]);
}
"""


def test_threads_outlive_dlclose_and_start_afresh_in_forked_processes(tmp_path) -> None:
    write_library(chain(), tmp_path / "chain.so", header=tmp_path / "chain.h")
    (tmp_path / "life.c").write_text(_LIFE)
    build(tmp_path, "life", [], "-ldl", "-Wno-pedantic")
    command = [tmp_path / "life", tmp_path / "chain.so"]
    assert subprocess.run(command, timeout=60).returncode == 0


HOSTILE = (
    "*/ int main(", "x\ny", "while", "x", "x?", "", "é", "??/", "NULL", "%s{0}\\", "a" * 500,
    "/*", "_Bool", "0", '"', "x_2",
)  # fmt: skip


def test_hostile_names(tmp_path) -> None:
    tensors = [weft.placeholder((2,), name=f"{name}") for name in HOSTILE if name]
    total = weft.compute((2,), lambda i: sum(t[i] for t in tensors), name="*/\n#error")
    program = c_program(weft.compile(total).compiled, tmp_path)
    names = [field.name for field in program.interface.inputs]
    data = {
        name: np.random.default_rng(k).standard_normal(2, np.float32)
        for k, name in enumerate(names)
    }
    ran = program.run(data)
    assert ran.status == 0
    (got,) = ran.arrays.values()
    np.testing.assert_allclose(got, sum(data.values()), rtol=1e-5, atol=1e-5)
    header = tmp_path / f"{program.interface.name}.h"
    if compiler := shutil.which("c++"):
        flags = ("-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "-x", "c++")
        assert subprocess.run([compiler, *flags, header]).returncode == 0


def test_names_are_the_programs_or_as_asked(tmp_path) -> None:
    assert interface_of(chain()).name == "chain"
    assert c_program(chain(), tmp_path, "my_chain").interface.name == "my_chain"


@pytest.mark.long
def test_the_page_on_libraries(tmp_path, monkeypatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "ahead-of-time.md").read_text()
    blocks = dict(re.findall(r"^```(python|text)\n(.*?)^```", page, re.S | re.M))
    structs, main = re.findall(r"^```c\n(.*?)^```", page, re.S | re.M)
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks["python"], "<ahead-of-time.md>", "exec"), {"__name__": "document"})
    assert structs in Path("dense.h").read_text()
    Path("main.c").write_text(main)
    build(tmp_path, "main", [tmp_path / "dense.o"])
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, blocks["text"])
