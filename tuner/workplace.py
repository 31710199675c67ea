"""Places: where the jobs of a tuner run, and on which machine programs are timed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from weft.driver.advice import machine_key
from weft.driver.options import Options
from weft.runtime.executable import available_threads
from weft.workers.worker_pool import Result, WorkerPool

TIMES, RATES = "rounds", "rates"  # jobs that nothing else may disturb


class Place(Protocol):
    """Runs jobs of ``weft/workers/worker.py``. ``width``: how many may time at once without
    disturbing each other."""

    @property
    def width(self) -> int: ...

    def machine(self, options: Options) -> str:
        """What ``options`` compile for, and are timed on, by ``machine_key``."""
        ...

    def run(
        self, job: str, payloads: Sequence[bytes], timeout: float, *, fresh: bool = False
    ) -> list[Result]:
        """The result of ``job`` on each payload, in order: bytes, or the error that it ended in, a
        time-out of so many seconds included. ``fresh``: each in a process that has not run before,
        and those on machines of their own, if there are several."""
        ...


@dataclass(frozen=True, slots=True)
class Here:
    """Processes of this machine: ``workers`` that draft and build, and one that times."""

    workers: WorkerPool
    timer: WorkerPool
    width: int = 1

    def machine(self, options: Options) -> str:
        return machine_key(options)

    def run(
        self, job: str, payloads: Sequence[bytes], timeout: float, *, fresh: bool = False
    ) -> list[Result]:
        if not fresh:
            pool = self.timer if job in (TIMES, RATES) else self.workers
            return pool.run(job, payloads, timeout=timeout)
        found: list[Result] = []
        for payload in payloads:
            with WorkerPool(1) as once:
                found += once.run(job, [payload], timeout=timeout)
        return found


@contextmanager
def here(options: Options) -> Iterator[Here]:
    """This machine; its processes are gone at the end."""
    processors = available_threads() if options.workers is None else options.workers
    with WorkerPool(processors) as workers, WorkerPool(1) as timer:
        yield Here(workers, timer)
