"""The thread pool: complete, ordered by barriers, never shared, right after fork and at exit."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.program_examples import NativeCall, chain, long_chain
from weft.codegen.llvm.runtime import runtime_ir
from weft.codegen.objects import native_library
from weft.ir.scalar_expr import literal


def in_a_process(script: str) -> str:
    """The output of ``script`` in a fresh interpreter; fails where that crashes or hangs."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ports() -> None:
    for machine in ("x86_64", "aarch64", "riscv64"):
        assert "$" not in runtime_ir(f"{machine}-unknown-linux-gnu")
    with pytest.raises(KeyError):
        runtime_ir("x86_64-pc-windows-msvc")


def test_many_barriers() -> None:
    """Each of 300 launches reads what other threads wrote in the one before (it reverses)."""
    native = NativeCall(long_chain(300, literal(97)))
    x = np.arange(97, dtype=np.float32)
    for threads in (1, 2, 3, 4) * 5:
        y = np.zeros_like(x)
        assert native([x], [y], [np.ones_like(x)], [], threads)[0] == 0
        np.testing.assert_array_equal(y, x + 300)


def test_the_pool_grows_to_the_largest_team_and_no_further() -> None:
    script = """
        import os
        import numpy as np
        from program_examples import NativeCall, chain
        from weft.codegen.objects import native_library
        native = NativeCall(chain())
        x = np.arange(50, dtype=np.float32); y = np.zeros_like(x)
        before = len(os.listdir("/proc/self/task"))
        for threads in (1, 0, -5, 2, 3, 2, 1):
            assert native([x], [y], [x], [50], threads)[0] == 0
            assert (y == x * 4).all()
            print(native_library.workers(), len(os.listdir("/proc/self/task")) - before)
    """
    assert in_a_process(script) == "0 0\n" * 3 + "1 1\n" + "2 2\n" * 3


LAUNCHES = """
        import ctypes, os, subprocess, sys, threading, time
        from weft.codegen.objects.native_library import runtime, workers
        Kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, *[ctypes.c_int64] * 2)
        number, place = ctypes.c_int32, ctypes.c_void_p
        acquire = ctypes.CFUNCTYPE(number, number)(runtime()["weft_acquire"])
        release = ctypes.CFUNCTYPE(None, number)(runtime()["weft_release"])
        launch = ctypes.CFUNCTYPE(number, Kernel, *[place] * 4, *[ctypes.c_int64] * 2, number)(
            runtime()["weft_launch"])
        status, mine = (ctypes.c_int64 * 4)(), os.sched_getaffinity(0)
        def narrowed():
            last = time.monotonic() + 20
            while True:  # until all that wake up have slept again
                tasks = [int(task) for task in os.listdir("/proc/self/task")]
                found = [task for task in tasks if os.sched_getaffinity(task) != mine]
                if not found or time.monotonic() > last:
                    return found
                time.sleep(0.01)
"""


def test_leaders_run_what_no_worker_begins() -> None:
    """A launch on more threads than there are: the shares of those that never come."""
    script = """
        me = threading.get_native_id()
        for turn in range(200):
            done = []
            @Kernel
            def kernel(buffers, parameters, status, scratch, begin, end):
                done.append((begin, end, threading.get_native_id()))
            assert acquire(2) == 2
            launch(kernel, None, None, ctypes.addressof(status), None, 0, 50, 5)
            release(2)
            assert sorted(x[:2] for x in done) == [(k, k + 10) for k in range(0, 50, 10)]
            assert {who for begin, _, who in done if begin not in (0, 10)} == {me}
            time.sleep(0.003 if turn % 8 == 0 else 0)  # workers sleep, and are woken up
        assert workers() == 1 and not narrowed()
    """
    assert in_a_process(LAUNCHES + script) == ""


def test_workers_keep_their_processors() -> None:
    """Leaders call sleeping workers elsewhere, which is over when they sleep again: beside others
    that need the processors, and so stop both sides anywhere."""
    script = """
        ran = []
        kernel = Kernel(lambda *args: ran.append(args[4]))
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
        try:
            for turn in range(1000):
                assert acquire(8) == 8
                launch(kernel, None, None, ctypes.addressof(status), None, 0, 50, 8)
                release(8)
                time.sleep(0.003 if turn % 4 == 0 else 0)
                assert turn % 250 != 249 or not narrowed()
        finally:
            for process in busy: process.kill()
        assert len(ran) == 8000 and workers() == 7
    """
    assert in_a_process(LAUNCHES + script) == ""


def test_teams_shrink_beside_others_that_need_the_processors() -> None:
    """A region whose barriers cost a thread its processor is followed by one on half the team, for
    a while; its results do not depend on that."""
    script = """
        barrier = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 2)(runtime()["weft_barrier"])
        @Kernel
        def region(buffers, parameters, status, scratch, thread, team):
            ran.append((thread, team))
            if team > 1:
                time.sleep(0.05 * (thread == 0))
                barrier(thread, team)
        def team():
            ran.clear()
            assert acquire(2) == 2
            launch(region, None, None, ctypes.addressof(status), None, 0, -1, 2)
            release(2)
            assert sorted(ran) == [(thread, len(ran)) for thread in range(len(ran))]
            return len(ran)
        ran, last = [], time.monotonic() + 30
        os.sched_setaffinity(0, [min(mine)])
        assert team() == 2
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            while team() == 2: assert time.monotonic() < last
        finally:
            busy.kill()
        while team() == 1: assert time.monotonic() < last
    """
    assert in_a_process(LAUNCHES + script) == ""


def test_concurrent_callers_run_on_their_own_threads() -> None:
    """Twelve Python threads call at once, for a while; every result is right."""
    native = NativeCall(long_chain(20, literal(1000)))
    before = native_library.workers()
    wrong: list[str] = []

    def caller(seed: int) -> None:
        x = np.random.default_rng(seed).random(1000, dtype=np.float32)
        expected = x.copy()
        for _ in range(20):
            expected = expected + np.float32(1)
        y = np.zeros_like(x)
        for turn in range(60):
            y[:] = -1
            code = native([x], [y], [np.ones_like(x)], [], 1 + (seed + turn) % 4)[0]
            if code or not np.array_equal(y, expected):
                wrong.append(f"caller {seed}, turn {turn}")

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert native_library.workers() <= max(before, 3)


def test_a_forked_child_starts_afresh() -> None:
    """Also where the parent holds the pool at the moment of the fork."""
    script = """
        import os, threading
        import numpy as np
        from program_examples import NativeCall, long_chain
        from weft.codegen.objects import native_library
        from weft.ir.scalar_expr import literal
        native = NativeCall(long_chain(50, literal(1000)))
        x = np.arange(1000, dtype=np.float32); one = np.ones_like(x)
        def run():
            y = np.zeros_like(x)
            assert native([x], [y], [one], [], 3)[0] == 0
            assert (y == x + 50).all()
        run()
        stop = False
        def busy():
            while not stop: run()
        thread = threading.Thread(target=busy); thread.start()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                before = native_library.workers()
                for _ in range(3): run()
                os._exit(0 if (before, native_library.workers()) == (0, 2) else 1)
            assert os.waitpid(pid, 0)[1] == 0
            run()
        stop = True; thread.join()
        assert native_library.workers() == 2
        print("done")
    """
    assert in_a_process(script) == "done\n"


def test_workers_die_with_the_process_and_leave_signals_alone() -> None:
    script = """
        import os, signal
        import numpy as np
        from program_examples import NativeCall, chain
        native = NativeCall(chain())
        x = np.arange(50, dtype=np.float32); y = np.zeros_like(x)
        caught = []
        signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))
        before = set(os.listdir("/proc/self/task"))
        native([x], [y], [x], [50], 4)
        new = set(os.listdir("/proc/self/task")) - before
        assert len(new) == 3
        for task in new:
            status = open(f"/proc/self/task/{task}/status").read()
            blocked = int(status.split("SigBlk:")[1].split()[0], 16)
            assert blocked >> (signal.SIGUSR1 - 1) & 1, status
        os.kill(os.getpid(), signal.SIGUSR1)
        assert caught == [1]
        del native
        print("end")
    """
    assert in_a_process(script) == "end\n"


def test_no_threads_to_be_had() -> None:
    """Where the system refuses threads the call runs on those that it has."""
    script = """
        import resource
        import numpy as np
        from program_examples import NativeCall, chain
        from weft.codegen.objects import native_library
        native = NativeCall(chain())
        x = np.arange(50, dtype=np.float32); y = np.zeros_like(x)
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 12 * 2**20, -1))
        assert native([x], [y], [x], [50], 64)[0] == 0
        assert (y == x * 4).all()
        assert native_library.workers() < 63
        print("done")
    """
    assert in_a_process(script) == "done\n"


def test_a_library_may_go_while_the_pool_stays() -> None:
    x = np.arange(10, dtype=np.float32)
    for _ in range(3):
        native = NativeCall(chain())
        y = np.zeros_like(x)
        assert native([x], [y], [x], [10], 2)[0] == 0
        np.testing.assert_array_equal(y, x * 4)
        del native


def test_two_programs_at_once_share_one_pool() -> None:
    """Whoever finds the pool taken works alone: two callers never have more threads than one."""
    script = """
        import threading
        import numpy as np
        from program_examples import NativeCall, long_chain
        from weft.codegen.objects import native_library
        from weft.ir.scalar_expr import literal
        wrong = []
        def caller(steps, size):
            native = NativeCall(long_chain(steps, literal(size)))
            x = np.arange(size, dtype=np.float32)
            for _ in range(40):
                y = np.zeros_like(x)
                if native([x], [y], [np.ones_like(x)], [], 3)[0] or (y != x + steps).any():
                    wrong.append(steps)
        callers = [threading.Thread(target=caller, args=a) for a in ((30, 4096), (8, 5000))]
        for each in callers: each.start()
        for each in callers: each.join()
        print(wrong, native_library.workers())
    """
    assert in_a_process(script) == "[] 2\n"


def test_more_threads_than_processors() -> None:
    """Three threads that take turns on one processor."""
    script = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        import numpy as np
        from program_examples import NativeCall, long_chain
        from weft.codegen.objects import native_library
        from weft.ir.scalar_expr import literal
        native = NativeCall(long_chain(300, literal(97)))
        x = np.arange(97, dtype=np.float32)
        for _ in range(20):
            y = np.zeros_like(x)
            assert native([x], [y], [np.ones_like(x)], [], 3)[0] == 0
            assert (y == x + 300).all()
        print(native_library.workers())
    """
    assert in_a_process(script) == "2\n"


def test_workers_that_have_nothing_to_do_sleep() -> None:
    script = """
        import time
        import numpy as np
        from program_examples import NativeCall, long_chain
        from weft.codegen.objects import native_library
        from weft.ir.scalar_expr import literal
        native = NativeCall(long_chain(20, literal(1000)))
        x = np.arange(1000, dtype=np.float32)
        native([x], [np.zeros_like(x)], [np.ones_like(x)], [], 3)
        time.sleep(0.1)
        before = time.process_time()
        time.sleep(0.3)
        print(native_library.workers(), time.process_time() - before < 0.03)
    """
    assert in_a_process(script) == "2 True\n"
