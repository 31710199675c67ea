"""Compiler workers of this process: start them, feed them, survive their crashes.

Workers are plain ``python -m weft.workers.worker`` processes over pipes. Unlike ``multiprocessing``
that re-runs no user script, works in notebooks and consoles, and forks nothing after threads
started.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, cast

import msgspec

import weft
from weft.ir.errors import BudgetError, InternalError, WeftError, WeftWarning
from weft.workers.worker import HELLO, Answer, Job, as_error, perform, receive, send

START_TIMEOUT = 60.0  # seconds until a worker must have said hello
ATTEMPTS = 2  # a job whose worker crashed gets one more, fresh one

Result = bytes | WeftError


class _TooLong(Exception):
    pass


class _Worker:
    """One process. Any exception but ``_TooLong`` from its methods means that it is gone."""

    def __init__(self) -> None:
        self.errors = cast(IO[bytes], tempfile.TemporaryFile())  # noqa: SIM115 (its own life)
        root = str(Path(weft.__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        # -P: a file named like one of our modules in the current folder is not imported.
        command = [sys.executable, "-P", "-m", "weft.workers.worker"]
        environment = {**os.environ, "PYTHONPATH": path}
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                stderr=self.errors,
                env=environment,
                process_group=0,  # out of reach of the terminal's Ctrl-C
            )
        except BaseException:
            self.errors.close()
            raise
        self.jobs = cast(BinaryIO, self.process.stdin)
        self.answers = cast(BinaryIO, self.process.stdout)
        self.greeted = False

    def greet(self) -> None:
        """Wait until the worker is up; ``EOFError`` where it never will be."""
        self._wait(START_TIMEOUT)
        if receive(self.answers) != HELLO:
            raise EOFError("no Weft worker")
        self.greeted = True

    def ask(self, job: Job, timeout: float | None) -> Answer:
        send(self.jobs, msgspec.msgpack.encode(job))
        self._wait(timeout)
        return msgspec.msgpack.decode(receive(self.answers), type=Answer)

    def _wait(self, timeout: float | None) -> None:
        if timeout is not None:
            poll = select.poll()  # unlike select() good for any number of open files
            poll.register(self.answers, select.POLLIN)
            if not poll.poll(timeout * 1000):
                raise _TooLong

    def end(self) -> None:
        """Close the pipes, on which the worker ends by itself, and wait for a while."""
        self._close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()

    def bury(self) -> tuple[int, str]:
        """Kill it; its exit code and the last that it said on standard error."""
        self.process.kill()
        self._close()
        code = self.process.wait()
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 2000))
        words = self.errors.read().decode(errors="replace").strip()
        self.errors.close()
        return code, words

    def _close(self) -> None:
        for stream in (self.jobs, self.answers):
            with contextlib.suppress(OSError):  # unsent bytes of a job that nobody waits for
                stream.close()


class WorkerPool:
    """Up to ``size`` workers, started when first needed; 0: jobs run in this process.

    Where processes cannot be started, jobs run here too, with one warning: time-outs then do not
    hold. A pool is a context manager; without one its workers end with the process.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: list[_Worker] = []
        self._owner = os.getpid()
        self.lock = threading.Lock()  # who has the workers
        self._unavailable = False
        self._closing = weakref.finalize(self, _end_all, self._idle, self._owner)

    def jobs(self, job: str, *, timeout: float | None = None) -> Jobs:
        """Jobs of one kind to give one by one, a context manager: see ``Jobs``."""
        return Jobs(self, job, timeout)

    def run(
        self, job: str, payloads: Sequence[bytes], *, timeout: float | None = None
    ) -> list[Result]:
        """The results of ``job`` on each payload, in order: bytes, or the error that it ended in.

        A job that takes longer than ``timeout`` seconds is killed: ``BudgetError`` (WEFT-E0571).
        One that crashes its worker twice: ``InternalError`` (WEFT-E0570).
        """
        with self.jobs(job, timeout=timeout) as jobs:
            results = [jobs.add(payload) for payload in payloads]
            return [result.result() for result in results]

    def map(
        self, job: str, payloads: Sequence[bytes], *, timeout: float | None = None
    ) -> list[bytes]:
        """As ``run``, raising the first error."""
        results: list[bytes] = []
        for result in self.run(job, payloads, timeout=timeout):
            if isinstance(result, WeftError):
                raise result
            results.append(result)
        return results

    def close(self) -> None:
        """End the workers; the pool may be used again."""
        with self.lock:
            _end_all(self._idle, self._owner)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def take(self) -> _Worker | None:
        """A worker that is up; None where there can be none."""
        self._disown()
        while True:
            worker: _Worker | None
            try:
                worker = self._idle.pop()
            except IndexError:
                worker = self._spawn()
            if worker is None or self._ready(worker):
                return worker

    def _disown(self) -> None:
        if os.getpid() != self._owner:  # a forked child: those workers are its parent's
            self._owner = os.getpid()
            self._idle.clear()

    def _spawn(self) -> _Worker | None:
        if self._unavailable:
            return None
        try:
            return _Worker()
        except (OSError, ValueError, TypeError) as error:
            self._give_up(str(error))
            return None

    def _ready(self, worker: _Worker) -> bool:
        """Whether ``worker`` answers; it is buried if not."""
        if worker.greeted:
            if worker.process.poll() is None:
                return True
            worker.bury()  # it died while idle, which says nothing about the next
            return False
        try:
            worker.greet()
            return True
        except (OSError, EOFError, _TooLong) as error:
            self._give_up(worker.bury()[1] or str(error))
            return False

    def _give_up(self, why: str) -> None:
        if not self._unavailable:
            self._unavailable = True
            warnings.warn(
                f"compiler workers cannot be started, compiling in this process: {why}",
                WeftWarning,
                stacklevel=2,
            )

    def give_back(self, worker: _Worker) -> None:
        self._idle.append(worker)


def _end_all(workers: list[_Worker], owner: int) -> None:
    while workers:
        worker = workers.pop()
        if os.getpid() == owner:
            worker.end()


class Jobs:
    """Jobs of one kind, done by a pool's workers while the caller goes on.

        with pool.jobs("object") as jobs:
            result = jobs.add(payload)      # a future: bytes, or the error that it ended in

    There is a feeding thread for each worker; where workers cannot be started, it does the jobs
    itself. Whoever leaves by an exception kills the jobs that run. A pool serves one at a time.
    """

    def __init__(self, pool: WorkerPool, name: str, timeout: float | None) -> None:
        self._pool = pool
        self._name = name
        self._timeout = timeout
        self._waiting: queue.SimpleQueue[tuple[Job, Future[Result]] | None] = queue.SimpleQueue()
        self._feeders: list[threading.Thread] = []
        self._busy: list[_Worker] = []
        self._stopped = False

    def __enter__(self) -> Jobs:
        self._pool.lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._stopped = error is not None  # Ctrl-C, say: nobody wants the answers any more
            for _ in self._feeders:
                self._waiting.put(None)
            if self._stopped:
                for worker in list(self._busy):
                    worker.process.kill()
            else:
                for feeder in self._feeders:
                    feeder.join()
        finally:
            self._pool.lock.release()

    def add(self, payload: bytes, *, workers: int | None = None) -> Future[Result]:
        """Begin a job, on at most so many ``workers``: by default all of the pool."""
        job, future = Job(self._name, payload), Future[Result]()
        if self._pool.size == 0:
            _settle(future, perform(job))
            return future
        self._waiting.put((job, future))
        if len(self._feeders) < min(workers or self._pool.size, self._pool.size):
            self.more()
        return future

    def more(self) -> None:
        """Use one more worker, if the pool has one."""
        if len(self._feeders) < self._pool.size:
            feeder = threading.Thread(target=self._feed, name="weft-feeder", daemon=True)
            self._feeders.append(feeder)
            feeder.start()

    def _feed(self) -> None:
        worker: _Worker | None = None
        while (given := self._waiting.get()) is not None and not self._stopped:
            try:
                worker = self._do(*given, worker)
            except Exception as error:  # a warning that is one, say: whoever waits must hear of it
                worker = None
                given[1].set_exception(error)
        if worker is not None:
            self._pool.give_back(worker)

    def _do(self, job: Job, future: Future[Result], worker: _Worker | None) -> _Worker | None:
        """Settle ``future``, by ``worker`` if there is one already; the worker for the next job."""
        for attempt in range(1, ATTEMPTS + 1):
            worker = worker or self._pool.take()
            if worker is None:
                _settle(future, perform(job))
            elif not self._ask(worker, job, future, last=attempt == ATTEMPTS):
                worker = None
            if self._stopped or future.done():
                break
        return worker

    def _ask(self, worker: _Worker, job: Job, future: Future[Result], *, last: bool) -> bool:
        """Whether ``worker`` lives on. A crash settles the job on its ``last`` attempt only."""
        self._busy.append(worker)
        started = time.monotonic()
        try:
            _settle(future, worker.ask(job, self._timeout))
            return True
        except _TooLong:
            worker.bury()
            error: WeftError = BudgetError(
                "WEFT-E0571",
                f"a compiler worker was stopped after {time.monotonic() - started:.0f} s",
                where=f"job {job.name!r}",
            )
            future.set_result(error)
        except (OSError, EOFError, ValueError, msgspec.MsgspecError):
            code, words = worker.bury()
            if last:
                error = InternalError(
                    "WEFT-E0570",
                    f"a compiler worker crashed ({_ending(code)})",
                    where=f"job {job.name!r}",
                    why=words,
                    hint="this is a bug in Weft: please report it",
                )
                future.set_result(error)
        finally:
            self._busy.remove(worker)
        return False


def _ending(code: int) -> str:
    """How a process ended, by its exit code: that of a signal is negative."""
    names = {-each: each.name for each in signal.Signals}
    return names.get(code, f"exit code {code}")


def _settle(future: Future[Result], answer: Answer) -> None:
    failure = answer.failure
    future.set_result(answer.payload if failure is None else as_error(failure))
