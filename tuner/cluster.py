"""A cluster of dask.distributed as a place: workers that measure on the machines that they run on.

Nothing but bytes travels: the payload of a job, and what is in the files that it names. A worker
has jobs done in processes of its own, with time-outs, as a hung task would block it. Those take
part that are of one machine, and run this version of Weft.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import weft
from weft.driver.advice import machine_key
from weft.driver.options import Options
from weft.ir.errors import BudgetError, CompileError, InternalError, WeftError, short
from weft.tuner.trial import Build, Rounds, Timed, task_of
from weft.tuner.workplace import TIMES, Here, Place
from weft.workers.worker import Failure, as_error
from weft.workers.worker_pool import Result, WorkerPool

CONNECT = 10.0  # seconds that a scheduler or a worker has to answer
GRACE = 5.0  # seconds by which an answer may be late
MACHINE = "machine"


class Errand(msgspec.Struct, array_like=True, frozen=True):
    """A ``job``, with the ``files`` that its payload names, to do within ``timeout`` seconds."""

    job: str
    payload: bytes
    files: dict[str, bytes]
    timeout: float
    fresh: bool


class Report(msgspec.Struct, array_like=True, frozen=True):
    """What came of an errand: an answer, and the file that it made, or a failure. ``worker``: the
    address of whose it was; ``version`` of its Weft."""

    payload: bytes
    made: bytes
    failure: Failure | None
    worker: str
    version: str = weft.__version__


# ---- on a worker ---------------------------------------------------------------------------------


def serve(address: str) -> None:
    """Work for the scheduler at ``address`` until it ends. Raises ``CompileError`` (WEFT-E1105,
    E1106)."""
    distributed = _distributed()

    async def work() -> None:
        async with distributed.Worker(address, nthreads=1, death_timeout=CONNECT) as worker:
            await worker.finished()

    try:
        asyncio.run(work())
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise _unreachable(address, error) from None


def errand(data: bytes) -> bytes:
    """Do an ``Errand``; its ``Report``."""
    asked = msgspec.msgpack.decode(data, type=Errand)
    with tempfile.TemporaryDirectory(prefix="weft-errand-") as folder:
        payload, made = _unpacked(asked, Path(folder))
        (result,) = _processes().run(asked.job, [payload], asked.timeout, fresh=asked.fresh)
        file = made.read_bytes() if made.exists() else b""
    name = _distributed().get_worker().address
    if isinstance(result, WeftError):
        e = result
        failure = Failure(type(e).__name__, e.code, e.what, e.where, e.why, e.hint)
        return msgspec.msgpack.encode(Report(b"", b"", failure, name))
    return msgspec.msgpack.encode(Report(result, file, None, name))


@cache
def _processes() -> Place:
    return Here(WorkerPool(1), WorkerPool(1))


def _unpacked(asked: Errand, folder: Path) -> tuple[bytes, Path]:
    """The payload of ``asked`` with names of files in ``folder``; and of the one that is made."""
    made = folder / "made"
    own = {name: str(folder / str(k)) for k, name in enumerate(asked.files)}
    for name, content in asked.files.items():
        Path(own[name]).write_bytes(content)
    match asked.job:
        case "build":
            build = msgspec.msgpack.decode(asked.payload, type=Build)
            return _packed(msgspec.structs.replace(build, path=str(made))), made
        case "rounds":
            rounds = msgspec.msgpack.decode(asked.payload, type=Rounds)
            paths, arrays = [own[p] for p in rounds.paths], own.get(rounds.arrays, "")
            return _packed(msgspec.structs.replace(rounds, paths=paths, arrays=arrays)), made
    return asked.payload, made


# ---- where the search runs -----------------------------------------------------------------------


@contextmanager
def cluster(address: str) -> Iterator[Cluster]:
    """The workers of the scheduler at ``address``. Raises ``CompileError``: WEFT-E1105 without
    dask.distributed, E1106 where nobody answers."""
    distributed = _distributed()
    try:
        client = distributed.Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise _unreachable(address, error) from None
    try:
        yield Cluster(client, address)
    finally:
        client.close(timeout=GRACE)


class Cluster:
    """A ``Place``. ``client``: of the scheduler at ``address``."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._machines: dict[bytes, str] = {}  # by task
        self._asked: dict[str, bool] = {}  # address of a worker -> whether it takes part
        self._task = b""

    @property
    def width(self) -> int:
        return max(1, len(self._members()))

    def machine(self, options: Options) -> str:
        """This machine, if a worker has it; else the one that most of them have. Raises
        ``CompileError`` (WEFT-E1106) where there are no workers."""
        task = _packed(task_of(b"", options))
        if task not in self._machines:
            self._first()
            said = self._said(self._present(), task)
            count = Counter(said.values())
            if not count:
                raise _gone(self._address, "no worker of this version of Weft is there")
            own = machine_key(options)
            chosen = own if own in count else min(count, key=lambda each: (-count[each], each))
            self._machines[task], self._task = chosen, task
            self._asked = {name: found == chosen for name, found in said.items()}
        return self._machines[task]

    def run(
        self, job: str, payloads: Sequence[bytes], timeout: float, *, fresh: bool = False
    ) -> list[Result]:
        errands = [_packed(_errand(job, payload, timeout, fresh)) for payload in payloads]
        reports = self._done(errands, timeout, apart=fresh)
        liars = {r.worker for r in reports if isinstance(r, Report) and self._lies(job, r)}
        if liars:
            self._asked |= dict.fromkeys(liars, False)
            again = [k for k, r in enumerate(reports) if getattr(r, "worker", "") in liars]
            redone = self._done([errands[k] for k in again], timeout, apart=fresh)
            reports = [
                dict(zip(again, redone, strict=True)).get(k, r) for k, r in enumerate(reports)
            ]
        return [_result(job, p, r) for p, r in zip(payloads, reports, strict=True)]

    def _lies(self, job: str, report: Report) -> bool:
        """Whether a worker timed on another machine than it has said that it is."""
        if job != TIMES or report.failure is not None:
            return False
        try:
            timed = msgspec.msgpack.decode(report.payload, type=Timed)
        except msgspec.MsgspecError:
            return True
        return timed.machine not in self._machines.values()

    def _first(self) -> None:
        """Wait for a worker, for a while."""
        with suppress(TimeoutError):
            self._client.wait_for_workers(1, timeout=CONNECT)

    def _present(self) -> list[str]:
        try:
            return sorted(self._client.nthreads())
        except OSError as error:
            raise _gone(self._address, str(error)) from None

    def _members(self) -> list[str]:
        """The workers that take part, those that have come since among them. Raises
        ``CompileError`` (WEFT-E1106) where there are none."""
        present = self._present()
        fresh = [name for name in present if name not in self._asked]
        if fresh:
            said = self._said(fresh, self._task)
            machine = self._machines.get(self._task)
            self._asked |= {name: said.get(name) == machine for name in fresh}
        found = [name for name in present if self._asked[name]]
        if not found:
            raise _gone(self._address, "all workers are gone")
        return found

    def _said(self, names: Sequence[str], task: bytes) -> dict[str, str]:
        """The machine of each worker that answers, and runs this version of Weft."""
        asked = _packed(Errand(MACHINE, task, {}, 6 * CONNECT, False))
        futures = [self._submit(asked, [name], loose=False) for name in names]
        self._wait(futures, 6 * CONNECT + GRACE)
        reports = [_reported(f) for f in futures]
        return {
            name: r.payload.decode()
            for name, r in zip(names, reports, strict=True)
            if isinstance(r, Report) and r.failure is None and r.version == weft.__version__
        }

    def _done(self, errands: Sequence[bytes], timeout: float, *, apart: bool) -> list[Report | str]:
        """A report of each, or why there is none. ``apart``: on workers of their own."""
        members = self._members()
        turns = -(-len(errands) // len(members))
        futures = [
            self._submit(e, [members[k % len(members)]] if apart else members, loose=apart)
            for k, e in enumerate(errands)
        ]
        try:
            self._wait(futures, turns * (2 * timeout + GRACE))
            return [_reported(f) for f in futures]
        finally:
            for future in futures:
                future.release()

    def _submit(self, asked: bytes, names: Sequence[str], *, loose: bool) -> Any:
        return self._client.submit(
            errand, asked, workers=list(names), allow_other_workers=loose, pure=False
        )

    def _wait(self, futures: Sequence[Any], seconds: float) -> None:
        """Until all are done, or so many seconds have passed. Raises ``CompileError`` (WEFT-E1106)
        where the scheduler, or every worker, goes away."""
        end, heard = time.monotonic() + seconds, time.monotonic()
        while not all(f.done() for f in futures) and time.monotonic() < end:
            time.sleep(0.005)
            if self._client.status == "running":
                heard = time.monotonic()
            elif time.monotonic() - heard > CONNECT:
                raise _gone(self._address, "the scheduler does not answer")
        if any(f.status in ("cancelled", "lost") for f in futures):
            raise _gone(self._address, "the scheduler has lost what it was given")


def _errand(job: str, payload: bytes, timeout: float, fresh: bool) -> Errand:
    files: Mapping[str, bytes] = {}
    if job == TIMES:
        asked = msgspec.msgpack.decode(payload, type=Rounds)
        names = dict.fromkeys([*asked.paths, *([asked.arrays] if asked.arrays else [])])
        files = {name: Path(name).read_bytes() for name in names}
    return Errand(job, payload, dict(files), timeout, fresh)


def _reported(future: Any) -> Report | str:
    if future.status == "finished":
        try:
            return msgspec.msgpack.decode(future.result(), type=Report)
        except msgspec.MsgspecError as error:
            return f"a worker answers without sense: {error}"
    if future.status == "error":
        return f"{type(future.exception()).__name__}: {future.exception()}"
    return ""


def _result(job: str, payload: bytes, report: Report | str) -> Result:
    """What the job would have answered here; the file that it makes is where it says."""
    if report == "":
        return BudgetError("WEFT-E0571", "no worker of the cluster answered in time", where=job)
    if isinstance(report, str):
        return InternalError("WEFT-E0570", "a worker of the cluster failed", where=job, why=report)
    if report.failure is not None:
        return as_error(report.failure)
    if job == "build":
        Path(msgspec.msgpack.decode(payload, type=Build).path).write_bytes(report.made)
    return report.payload


def _packed(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


def _distributed() -> Any:
    """The package. Raises ``CompileError`` (WEFT-E1105)."""
    try:
        import distributed
    except ImportError:
        raise CompileError(
            "WEFT-E1105",
            "a cluster needs dask.distributed, which is not installed",
            hint="pip install 'weft[cluster]'",
        ) from None
    return distributed


def _unreachable(address: str, error: Exception) -> CompileError:
    why = str(error) or type(error).__name__
    what = f"there is no scheduler at {short(address)}"
    return CompileError("WEFT-E1106", what, why=why, hint="dask scheduler starts one")


def _gone(address: str, why: str) -> CompileError:
    what = f"the cluster at {address} has nobody who works"
    hint = "`weft tune worker` starts a worker; the same search goes on from its records"
    return CompileError("WEFT-E1106", what, why=why, hint=hint)
