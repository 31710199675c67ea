"""Compiler workers of this process: start them, feed them, survive their crashes.

Workers are plain ``python -m weft.worker`` processes over pipes. Unlike ``multiprocessing`` that
re-runs no user script, works in notebooks and consoles, and forks nothing after threads started.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, cast

import msgspec

import weft
from weft.errors import BudgetError, InternalError, WeftError, WeftWarning
from weft.worker import HELLO, Answer, Job, as_error, perform, receive, send

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
        command = [sys.executable, "-P", "-m", "weft.worker"]
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
        self._lock = threading.Lock()  # one batch at a time
        self._unavailable = False
        self._closing = weakref.finalize(self, _end_all, self._idle, self._owner)

    def run(
        self, job: str, payloads: Sequence[bytes], *, timeout: float | None = None
    ) -> list[Result]:
        """The results of ``job`` on each payload, in order: bytes, or the error that it ended in.

        A job that takes longer than ``timeout`` seconds is killed: ``BudgetError`` (WEFT-E0571).
        One that crashes its worker twice: ``InternalError`` (WEFT-E0570).
        """
        with self._lock:
            return _Batch(self, [Job(job, payload) for payload in payloads], timeout).run()

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
        with self._lock:
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

    def warm(self) -> None:
        """Start the workers now, without waiting for them, so that they are up when needed."""
        self._disown()
        while len(self._idle) < self.size and (worker := self._spawn()) is not None:
            self._idle.append(worker)

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


class _Batch:
    """One ``run``: a feeding thread for each worker, results by position."""

    def __init__(self, pool: WorkerPool, jobs: list[Job], timeout: float | None) -> None:
        self.pool = pool
        self.jobs = jobs
        self.timeout = timeout
        self.results: list[Result | None] = [None] * len(jobs)
        self.waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(jobs)):
            self.waiting.put(number)
        self.busy: list[_Worker] = []
        self.stopped = False

    def run(self) -> list[Result]:
        feeders = [
            threading.Thread(target=self._feed, name="weft-feeder", daemon=True)
            for _ in range(min(self.pool.size, len(self.jobs)))
        ]
        try:
            for feeder in feeders:
                feeder.start()
            for feeder in feeders:
                feeder.join()
            self._here()
        except BaseException:  # Ctrl-C: nobody wants the answers any more
            self.stopped = True
            for worker in list(self.busy):
                worker.process.kill()
            raise
        return cast(list[Result], self.results)

    def _here(self) -> None:
        """What no worker took is done in this process."""
        while (number := self._next()) is not None:
            self._settle(number, perform(self.jobs[number]))

    def _next(self) -> int | None:
        try:
            return None if self.stopped else self.waiting.get_nowait()
        except queue.Empty:
            return None

    def _feed(self) -> None:
        worker: _Worker | None = None
        while (number := self._next()) is not None:
            for attempt in range(1, ATTEMPTS + 1):
                worker = worker or self.pool.take()
                if worker is None:
                    self.waiting.put(number)  # for the caller's own thread
                    return
                if not self._ask(worker, number, last=attempt == ATTEMPTS):
                    worker = None
                if self.stopped or self.results[number] is not None:
                    break
        if worker is not None:
            self.pool.give_back(worker)

    def _ask(self, worker: _Worker, number: int, *, last: bool) -> bool:
        """Whether ``worker`` lives on. A crash settles the job on its ``last`` attempt only."""
        self.busy.append(worker)
        started = time.monotonic()
        try:
            self._settle(number, worker.ask(self.jobs[number], self.timeout))
            return True
        except _TooLong:
            worker.bury()
            self.results[number] = BudgetError(
                "WEFT-E0571",
                f"a compiler worker was stopped after {time.monotonic() - started:.0f} s",
                where=f"job {self.jobs[number].name!r}",
            )
        except (OSError, EOFError, ValueError, msgspec.MsgspecError):
            code, words = worker.bury()
            if last:
                self.results[number] = InternalError(
                    "WEFT-E0570",
                    f"a compiler worker crashed (exit code {code})",
                    where=f"job {self.jobs[number].name!r}",
                    why=words,
                    hint="this is a bug in Weft: please report it",
                )
        finally:
            self.busy.remove(worker)
        return False

    def _settle(self, number: int, answer: Answer) -> None:
        failure = answer.failure
        self.results[number] = answer.payload if failure is None else as_error(failure)
