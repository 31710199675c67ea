"""Compiler workers: order, crashes, hangs, interrupts, and life without processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from weft.codegen.llvm.target import host_target, to_object
from weft.driver import object_code as jobs
from weft.ir.errors import BudgetError, CallError, InternalError, WeftError, WeftWarning
from weft.workers import worker, worker_pool
from weft.workers.worker_pool import WorkerPool

IR = "define i64 @f(i64 %x) {{\n  %y = add i64 %x, {}\n  ret i64 %y\n}}\n"

# Jobs of these tests, which workers find in a module on their path.
ODD_JOBS = """
import os, sys, time
from weft.ir.errors import ModelError

def odd(payload):
    match payload.decode().split():
        case ["die"]:
            os.write(2, b"last words"); os._exit(3)
        case ["die-once", path]:
            if not os.path.exists(path):
                open(path, "w").close(); os.abort()
        case ["sleep", seconds]:
            time.sleep(float(seconds))
        case ["print"]:
            print("x" * 100_000); os.write(1, b"raw")
        case ["raise"]:
            raise KeyError("surprise")
        case ["refuse"]:
            raise ModelError("WEFT-E0299", "what", where="where", why="why", hint="hint")
    return payload + b" " + str(os.getpid()).encode()
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A pool of two whose workers know the job "odd"."""
    (tmp_path / "odd_jobs.py").write_text(ODD_JOBS)
    # Workers import weft.workers.worker afresh; a site customisation adds the row to its table.
    (tmp_path / "sitecustomize.py").write_text(
        "import weft.workers.worker\nweft.workers.worker.JOBS['odd'] = 'odd_jobs:odd'\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(worker.JOBS, "odd", "odd_jobs:odd")
    with WorkerPool(2) as pool:
        yield pool


def test_results_come_in_order() -> None:
    payloads = [str(i).encode() * (i % 7 * 1000) for i in range(60)]
    with WorkerPool(2) as pool:
        assert pool.map("echo", payloads) == payloads
        assert pool.map("echo", []) == []
        large = bytes(range(256)) * 50_000
        assert pool.map("echo", [large, b"", large]) == [large, b"", large]


def test_a_worker_that_died_while_idle_is_replaced() -> None:
    with WorkerPool(1) as pool:
        pool.map("echo", [b"1"])
        dead = pool._idle[0].process
        dead.kill()
        dead.wait()
        assert pool.map("echo", [b"2"]) == [b"2"]
        assert pool._idle[0].process.pid != dead.pid


def test_objects_are_what_this_process_would_compile() -> None:
    texts = [IR.format(k) for k in range(5)]
    expected = [to_object(text, host_target()) for text in texts]
    for size in (0, 1, 2):
        with WorkerPool(size) as pool:
            assert (
                pool.map("object", [jobs.object_job(t, host_target()) for t in texts]) == expected
            )


def test_refused_code_is_the_same_error_here_and_there() -> None:
    shown = []
    for size in (0, 1):
        with WorkerPool(size) as pool, pytest.raises(InternalError) as caught:
            pool.map("object", [jobs.object_job(IR.format("nonsense"), host_target())])
        shown.append(str(caught.value))
    assert shown[0] == shown[1] and "WEFT-E0901" in shown[0]


def test_workers_are_kept_and_replaced(odd: WorkerPool) -> None:
    def workers() -> set[bytes]:
        return {result.split()[1] for result in odd.map("odd", [b"x"] * 30)}

    first = workers()
    assert 1 <= len(first) <= 2 and str(os.getpid()).encode() not in first
    assert workers() <= first or len(workers() | first) <= 2
    odd.close()
    assert not workers() & first


def test_a_crash_is_an_error_of_its_job_alone(odd: WorkerPool) -> None:
    results = odd.run("odd", [b"a", b"die", b"b", b"die", b"c"])
    assert [isinstance(result, bytes) for result in results] == [True, False, True, False, True]
    error = results[1]
    assert isinstance(error, InternalError) and error.code == "WEFT-E0570"
    assert "exit code 3" in error.what and "last words" in error.why
    with pytest.raises(InternalError, match="WEFT-E0570"):
        odd.map("odd", [b"die"])


def test_a_job_gets_a_second_chance(odd: WorkerPool, tmp_path: Path) -> None:
    job = f"die-once {tmp_path / 'mark'}".encode()
    assert odd.map("odd", [job])[0].startswith(job)


def test_a_hanging_job_is_stopped(odd: WorkerPool) -> None:
    odd.map("odd", [b"warm"] * 2)
    started = time.monotonic()
    results = odd.run("odd", [b"sleep 600", b"quick", b"sleep 0.01"], timeout=1.0)
    assert time.monotonic() - started < 60
    assert isinstance(results[0], BudgetError) and results[0].code == "WEFT-E0571"
    assert all(isinstance(result, bytes) for result in results[1:])


def test_errors_cross_the_pipe(odd: WorkerPool) -> None:
    refused, surprised, unknown = (
        odd.run("odd", [b"refuse"])[0], odd.run("odd", [b"raise"])[0], odd.run("none", [b""])[0],
    )  # fmt: skip
    assert isinstance(refused, WeftError)
    assert type(refused).__name__ == "ModelError"
    assert str(refused) == "WEFT-E0299: what\n  where: where\n  why: why\n  try: hint"
    for error in (surprised, unknown):
        assert isinstance(error, InternalError) and error.code == "WEFT-E0902"
    assert isinstance(surprised, WeftError) and "surprise" in str(surprised)


def test_what_a_library_prints_stays_out_of_the_answers(odd: WorkerPool) -> None:
    assert odd.map("odd", [b"print", b"x", b"print"])[2].startswith(b"print")


def test_only_weft_errors_are_made_from_names() -> None:
    for kind in ("BaseException", "annotations", "nothing"):
        error = worker.as_error(worker.Failure(kind, "WEFT-E0001", "what"))
        assert type(error) is InternalError
    assert type(worker.as_error(worker.Failure("CallError", "c", "w"))) is CallError


@pytest.mark.parametrize("size", [0, 1, 2])
def test_jobs_go_on_while_the_caller_does(size: int) -> None:
    with WorkerPool(size) as pool:
        for _ in range(2):
            with pool.jobs("echo") as given:
                results = [given.add(bytes([k]), workers=1) for k in range(9)]
                given.more()
                assert results[3].result() == bytes([3])
                results.append(given.add(b"last"))
            assert all(result.done() for result in results)
            assert [r.result() for r in results] == [*(bytes([k]) for k in range(9)), b"last"]


def test_whoever_leaves_by_an_exception_ends_the_jobs(odd: WorkerPool) -> None:
    odd.map("odd", [b"warm"] * 2)
    started = time.monotonic()
    with pytest.raises(KeyError), odd.jobs("odd") as given:
        for _ in range(3):
            given.add(b"sleep 600")
        raise KeyError
    assert time.monotonic() - started < 60
    assert len(odd.map("odd", [b"a", b"b"])) == 2


def test_several_callers_take_turns() -> None:
    wrong: list[int] = []
    with WorkerPool(2) as pool:

        def caller(number: int) -> None:
            payloads = [bytes([number, k]) for k in range(20)]
            if pool.map("echo", payloads) != payloads:
                wrong.append(number)

        threads = [threading.Thread(target=caller, args=(k,)) for k in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


SCRIPTS = {"fails": "exit 3", "chatters": "cat /dev/zero | head -c 99999", "is silent": "sleep 9"}


@pytest.mark.parametrize("python", ["/nonexistent/python", *SCRIPTS, None, ""])
def test_without_processes_jobs_run_here(python: str | None, monkeypatch, tmp_path: Path) -> None:
    """No interpreter, one that fails, one that answers nonsense, one that never answers."""
    if python in SCRIPTS:
        script = tmp_path / "python"
        script.write_text(f"#!/bin/sh\n{SCRIPTS[python]}\n")
        script.chmod(0o755)
        python = str(script)
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setattr(worker_pool, "START_TIMEOUT", 0.5)
    with WorkerPool(2) as pool:
        with pytest.warns(WeftWarning, match="compiler workers cannot be started"):
            assert pool.map("echo", [b"1", b"2", b"3"]) == [b"1", b"2", b"3"]
        assert pool.map("echo", [b"4"]) == [b"4"]  # and no second warning


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_reaches_the_caller(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with WorkerPool(2) as pool, pytest.raises(WeftWarning, match="cannot be started"):
        pool.map("echo", [b"1"])


def in_a_process(script: str, *options: str, feed: str | None = None) -> str:
    command = [sys.executable, *options]
    done = subprocess.run(
        command if feed is not None else [*command, "-c", textwrap.dedent(script)],
        input=feed, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_main_guard_is_needed_and_nothing_runs_twice(tmp_path: Path) -> None:
    script = tmp_path / "user.py"
    script.write_text(
        "print('once')\n"
        "from weft.workers.worker_pool import WorkerPool\n"
        "print(WorkerPool(2).map('echo', [b'a', b'b']))\n"
    )
    (tmp_path / "msgspec.py").write_text("raise SystemExit('imported from the user folder')")
    done = subprocess.run(
        [sys.executable, "-P", "user.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "once\n[b'a', b'b']\n", done.stderr


def test_at_the_console() -> None:
    lines = (
        "from weft.workers.worker_pool import WorkerPool\n"
        "print(WorkerPool(1).map('echo', [b'a']))\n"
    )
    assert in_a_process("", "-i", "-q", feed=lines) == "[b'a']\n"


def test_workers_end_with_their_parent() -> None:
    script = """
        import os, signal
        from weft.workers.worker_pool import WorkerPool
        pool = WorkerPool(1)
        pool.map("echo", [b"a"])
        print(pool._idle[0].process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    pid = int(done.stdout)
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.02)
    pytest.fail("the worker still runs")


def test_interrupted(tmp_path: Path) -> None:
    """Ctrl-C during a batch: the call ends at once, and the pool works again."""
    script = """
        import os, signal, threading, time
        from weft.workers import worker_pool
        from weft.workers.worker_pool import WorkerPool
        signal.signal(signal.SIGINT, signal.default_int_handler)  # though a shell may ignore it
        pool = WorkerPool(2)
        pool.map("echo", [b"warm"] * 2)
        ask = worker_pool._Worker.ask
        def slow(self, job, timeout):
            if job.payload == b"slow":
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                time.sleep(0.3)
            return ask(self, job, timeout)
        worker_pool._Worker.ask = slow
        try:
            pool.map("echo", [b"slow"])
        except KeyboardInterrupt:
            print("interrupted")
        print(pool.map("echo", [b"a"]))
    """
    assert in_a_process(script) == "interrupted\n[b'a']\n"


def test_a_forked_child_starts_its_own() -> None:
    script = """
        import os
        from weft.workers.worker_pool import WorkerPool
        pool = WorkerPool(1)
        pool.map("echo", [b"a"])
        mine = pool._idle[0].process.pid
        child = os.fork()
        if child == 0:
            good = pool.map("echo", [b"b"]) == [b"b"] and pool._idle[0].process.pid != mine
            pool.close()
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        print(pool.map("echo", [b"c"]), pool._idle[0].process.pid == mine)
    """
    assert in_a_process(script) == "[b'c'] True\n"
