"""Libraries are called from C, and answer what NumPy and onnxruntime answer."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.weft.c_program import HERE, CProgram, build, c_program, needs_c
from tests.weft.compiled_examples import chain, transpose, two_outputs, update
from tests.weft.small_models import CLASSES, SIDE, conv_net
from weft.codegen.llvm_target import host_target
from weft.library import interface_of, write_library

pytestmark = needs_c
SIZES = (0, 1, 7, 64, 10_007)


def _draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> CProgram:
    executable = weft.compile(conv_net())
    return c_program(executable.compiled, tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("threads", [1, 2, 300])
def test_a_model_answers_as_onnxruntime_does(model, threads) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    x = _draw(1, 3, SIDE, SIDE)
    session = onnxruntime.InferenceSession(conv_net().SerializeToString())
    (expected,) = session.run(None, {"input": x})
    ran = model.run({"input": x}, threads=threads)
    assert (ran.status, ran.message) == (0, "done")
    assert ran.arrays["output"].shape == (1, CLASSES)
    np.testing.assert_allclose(ran.arrays["output"], expected, rtol=1e-4, atol=1e-5)


def test_it_needs_libc_and_libm_alone(model) -> None:
    if shutil.which("ldd") is None:
        pytest.skip("no ldd: what the program needs is not looked at")
    done = subprocess.run(
        ["ldd", str(model.folder / "main")], capture_output=True, text=True, check=True
    )
    names = {line.split()[0].rsplit("/", 1)[-1] for line in done.stdout.splitlines()}
    assert any(name.startswith("libc.") for name in names)
    for name in names:
        assert name.startswith(("linux-vdso", "linux-gate", "libc.", "libm.", "ld-", "libpthread."))


def test_it_defines_what_the_header_declares_and_nothing_else(model) -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm: symbols are not looked at")
    listing = subprocess.run(
        ["nm", "--extern-only", "--defined-only", str(model.folder / "conv_net.o")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {line.split()[-1] for line in listing.stdout.splitlines()}
    assert found == {"conv_net_run", "conv_net_workspace_bytes", "conv_net_message"}


@pytest.mark.parametrize("suffix", [".o", ".so"])
def test_sizes_are_arguments(suffix, tmp_path) -> None:
    program = c_program(chain(), tmp_path, suffix=suffix)
    for n in SIZES:
        x = _draw(n)
        ran = program.run({"x": x}, {"n": n}, threads=2)
        assert ran.status == 0
        np.testing.assert_array_equal(ran.arrays["y"], (x + 3) * 2)


def test_several_outputs(tmp_path) -> None:
    x, y = (np.arange(start, start + 13, dtype=np.int32) for start in (5, 100))
    ran = c_program(two_outputs(), tmp_path).run({"x": x, "y": y}, {"n": 13})
    np.testing.assert_array_equal(ran.arrays["sum"], x + y)
    np.testing.assert_array_equal(ran.arrays["difference"], x - y)


def test_what_follows_from_sizes_is_no_argument(tmp_path) -> None:
    program = c_program(transpose(), tmp_path)
    assert [size.name for size in program.interface.sizes] == ["m", "n"]
    x = _draw(3, 5)
    ran = program.run({"x": x}, {"m": 3, "n": 5})
    np.testing.assert_array_equal(ran.arrays["y"], x.T)


@pytest.mark.parametrize("shared", [True, False])
def test_an_input_is_overwritten(shared, tmp_path) -> None:
    state, step = _draw(100), _draw(100, seed=1)
    ran = c_program(update(shared), tmp_path).run({"state": state, "step": step}, {"n": 100})
    assert list(ran.arrays) == ["state"]
    np.testing.assert_array_equal(ran.arrays["state"], state + step)


def test_bad_data_come_back_as_a_status_with_their_numbers(tmp_path) -> None:
    state = _draw(100)
    state[41] = -1001
    ran = c_program(update(True), tmp_path).run({"state": state, "step": state}, {"n": 100})
    assert ran.status > 0
    assert ran.message == "element {0} of in0 is below -1000 ({1})"
    assert ran.numbers == (41, 7)


def test_wrong_sizes_are_refused(tmp_path) -> None:
    program = c_program(transpose(), tmp_path)
    for sizes, message in (
        ({"m": -1, "n": 2}, "m is no size"),
        ({"m": 1 << 62, "n": 2}, "m is no size"),
        ({"m": 1 << 40, "n": 1 << 40}, "the sizes are too large"),
        ({"m": 1000, "n": 1000}, "less than 1,000,000 elements"),
    ):
        ran = program.run({"x": _draw(0, 0)}, sizes)
        assert ran.status < 0
        assert message in ran.message
    assert program.run({"x": _draw(0, 0)}, {"m": 0, "n": 0}, threads=0).message == (
        "threads is less than 1"
    )


def test_a_loop_kernel(tmp_path) -> None:
    @weft.kernel
    def axpy(n: weft.i64, alpha: weft.f64, x: weft.f64["n"], y: weft.f64["n"]):
        for i in range(n):
            y[i] = alpha * x[i] + y[i]

    program = c_program(axpy.compile().compiled, tmp_path)
    assert [f.by_value for f in program.interface.inputs] == [True, False, False]
    for n in (0, 1, 1009):
        x, y = _draw(n).astype(float), _draw(n, seed=1).astype(float)
        ran = program.run({"alpha": 2.5, "x": x, "y": y}, {"n": n})
        assert ran.status == 0
        np.testing.assert_allclose(ran.arrays["y"], 2.5 * x + y, rtol=1e-15, atol=1e-15)


def test_data_dependent_indices_are_checked(tmp_path) -> None:
    n, k = weft.var("n"), weft.var("k")
    table, index = weft.placeholder((n,), name="table"), weft.placeholder((k,), "int64", name="at")
    taken = weft.compute((k,), lambda i: table[index[i]], name="taken")
    program = c_program(weft.compile(taken).compiled, tmp_path)
    x = _draw(11)
    good = program.run({"table": x, "at": [3, 10, 0]}, {"n": 11, "k": 3})
    np.testing.assert_array_equal(good.arrays["taken"], x[[3, 10, 0]])
    bad = program.run({"table": x, "at": [3, 11, 0]}, {"n": 11, "k": 3})
    assert bad.status > 0
    assert bad.numbers == (11, 11)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint32", "uint64", "float16", "bfloat16", "int4"]
)
def test_types_that_c_shows_by_their_bits(dtype, tmp_path) -> None:
    x = weft.placeholder((4,), dtype, name="x")
    one = weft.placeholder((), dtype, name="one")
    y = weft.compute((4,), lambda i: weft.select(x[i].equal(one[()]), one[()], x[3 - i]), name="y")
    data = np.array([1, 0, 1, 1]).astype(x.dtype.numpy)
    ran = c_program(weft.compile(y).compiled, tmp_path).run({"x": data, "one": 1})
    expected = np.where(data == data[0], data[0], data[::-1])
    np.testing.assert_array_equal(ran.arrays["y"].view(np.uint8), expected.view(np.uint8))


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


def test_a_processor_that_lacks_instructions_is_told_so(model) -> None:
    emulator = shutil.which("qemu-x86_64")
    if emulator is None or "avx2" not in host_target().enabled:
        pytest.skip("nothing here can play an older processor")
    older = replace(model, system=replace(HERE, runner=(emulator, "-cpu", "Nehalem")))
    ran = older.run({"input": _draw(1, 3, SIDE, SIDE)})
    assert ran.status < 0
    assert "lacks instructions" in ran.message


HOSTILE = (
    "*/ int main(", "x\ny", "while", "x", "x?", "", "é", "??/", "NULL", "%s{0}\\", "a" * 500,
    "/*", "_Bool", "0", '"', "x_2",
)  # fmt: skip


def test_hostile_names(tmp_path) -> None:
    tensors = [weft.placeholder((2,), name=f"{name}") for name in HOSTILE if name]
    total = weft.compute((2,), lambda i: sum(t[i] for t in tensors), name="*/\n#error")
    program = c_program(weft.compile(total).compiled, tmp_path)
    names = [field.name for field in program.interface.inputs]
    data = {name: _draw(2, seed=k) for k, name in enumerate(names)}
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
