"""Clusters: what is timed far away is what would have been timed here, whoever dies or lies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import weft
from tests.tuner.stubs import OPTIONS, Imagined, halve, laboratory, session
from weft.driver.options import Options
from weft.ir.errors import CompileError, InternalError
from weft.runtime.records import Records, Trial
from weft.tuner import cluster as clusters
from weft.tuner import trial
from weft.tuner.cluster import Cluster, Errand, cluster, serve
from weft.tuner.session import Budget, Tuner, tuned
from weft.workers.worker_pool import Result

distributed = pytest.importorskip("distributed")


class Far(Imagined):
    """What workers of these tests do: nothing, for as long as a trial takes."""

    build_seconds = 0.0

    def _machine(self, payload: bytes, kind: str) -> bytes:
        return self.machine(OPTIONS).encode()

    def _build(self, payload: bytes, kind: str) -> bytes:
        time.sleep(self.build_seconds)
        return super()._build(payload, kind)

    def _rates(self, payload: bytes, kind: str) -> bytes:
        return msgspec.msgpack.encode(trial.Rates(1e9, 2.0))

    def _bound(self, payload: bytes, kind: str) -> bytes:
        return msgspec.msgpack.encode(0.0)

    def _rounds(self, payload: bytes, kind: str) -> bytes:
        if self.build_seconds:
            time.sleep(msgspec.msgpack.decode(payload, type=trial.Rounds).seconds)
        return super()._rounds(payload, kind)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Far:
    place = Far()
    monkeypatch.setattr(clusters, "_processes", lambda: place)
    return place


@pytest.fixture
def workers() -> Iterator[Any]:
    """A scheduler and two workers, in threads of this process."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as made:
        yield made


def test_a_session_on_a_cluster(far: Far, workers: Any, tmp_path: Path) -> None:
    with cluster(workers.scheduler_address) as place, Records(tmp_path / "records") as records:
        outcome, tuner = session(place, records, tmp_path / "lab")
        assert place.width == 2
        assert tuner.about.machine == far.machine(OPTIONS)  # of the workers
        assert records.find(Trial, tuner.about)
    assert outcome.gain is not None and outcome.trials >= 40
    truth = far.seconds({}) / far.seconds(outcome.plan)
    assert outcome.gain.median == pytest.approx(truth, rel=0.05)


def test_what_fails_far_away_says_so(far: Far, workers: Any, tmp_path: Path) -> None:
    with cluster(workers.scheduler_address) as place:
        lab = laboratory(place, tmp_path / "lab")
        (base,) = lab.build([{}])
        far.faults = 1.0
        (pair,) = lab.timer.beside(base, [base], 0.1)
        drafted = lab.draft([{}])
        assert isinstance(pair, str) and drafted[0].refused.startswith("WEFT-E")


def test_a_worker_that_raises(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Raising(Far):
        def _draft(self, payload: bytes, kind: str) -> bytes:
            raise OSError("no room on the device")

    monkeypatch.setattr(clusters, "_processes", Raising)
    with cluster(workers.scheduler_address) as place:
        place.machine(OPTIONS)
        payload = msgspec.msgpack.encode(trial.Drafts(trial.task_of(b"", OPTIONS), [{}]))
        (found,) = place.run("draft", [payload], 1.0)
        assert isinstance(found, InternalError) and found.code == "WEFT-E0570"
        assert "no room on the device" in found.why


def test_a_worker_that_lies_about_its_machine_is_asked_no_more(
    workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar = workers.workers[0].address

    class Two(Far):
        def _rounds(self, payload: bytes, kind: str) -> bytes:
            mine = distributed.get_worker().address
            asked.append(mine)
            return super()._rounds(payload, "lie" if mine == liar else kind)

    asked: list[str] = []
    monkeypatch.setattr(clusters, "_processes", Two)
    with cluster(workers.scheduler_address) as place:
        lab = laboratory(place, tmp_path / "lab")
        base, *others = lab.build([{}, *({f"S0.d{k}": "1"} for k in range(4))])
        pairs = lab.timer.beside(base, others, 0.1)
        assert liar in asked and not any(isinstance(pair, str) for pair in pairs)
        assert place.width == 1
        asked.clear()
        assert not any(isinstance(pair, str) for pair in lab.timer.beside(base, others, 0.1))
        assert liar not in asked


def test_workers_of_other_machines_do_not_take_part(
    workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {w.address: f"machine {k}" for k, w in enumerate(workers.workers.values())}

    class Several(Far):
        def machine(self, options: Options) -> str:
            return names[distributed.get_worker().address]

    monkeypatch.setattr(clusters, "_processes", Several)
    with cluster(workers.scheduler_address) as place:
        assert place.machine(OPTIONS) == "machine 0" and place.width == 1
    monkeypatch.setattr(clusters, "machine_key", lambda options: "machine 1")
    with cluster(workers.scheduler_address) as place:  # this machine comes first
        assert place.machine(OPTIONS) == "machine 1" and place.width == 1


def test_a_model_needs_workers_of_this_machine(far: Far, workers: Any, tmp_path: Path) -> None:
    x = weft.placeholder((4,), name="x")
    y = weft.compute((4,), lambda i: 2.0 * x[i], name="y")
    address = workers.scheduler_address
    with pytest.raises(CompileError, match="WEFT-E1107"):
        weft.tune(y, trials=1, options=OPTIONS, records=tmp_path / "records", cluster=address)


def test_files_travel_with_an_errand(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"artifact")
    (tmp_path / "arrays").write_bytes(b"arrays")
    paths = [str(tmp_path / "a")] * 2
    asked = trial.Rounds(trial.task_of(b"", OPTIONS), paths, str(tmp_path / "arrays"), 0, 1.0)
    sent = clusters._errand("rounds", msgspec.msgpack.encode(asked), 1.0, False)
    assert list(sent.files.values()) == [b"artifact", b"arrays"]
    there = tmp_path / "there"
    there.mkdir()
    payload, _ = clusters._unpacked(sent, there)
    read = msgspec.msgpack.decode(payload, type=trial.Rounds)
    assert [Path(p).read_bytes() for p in read.paths] == [b"artifact"] * 2
    assert Path(read.arrays).read_bytes() == b"arrays" and Path(read.arrays).parent == there
    build = trial.Build(asked.task, {}, "/somewhere/of/the/client")
    errand = Errand("build", msgspec.msgpack.encode(build), {}, 1.0, False)
    payload, made = clusters._unpacked(errand, there)
    assert msgspec.msgpack.decode(payload, type=trial.Build).path == str(made)


# ---- nobody there --------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "no address", "", "ftp://x:1"])
def test_no_scheduler(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "CONNECT", 0.5)
    with pytest.raises(CompileError, match="WEFT-E1106: there is no scheduler at"):
        weft.tune(halve, (np.ones(3, np.float32),), trials=1, options=OPTIONS, cluster=address)
    with pytest.raises(CompileError, match="WEFT-E1106"):
        serve(address)


def test_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "CONNECT", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        cluster(empty.scheduler_address) as place,
        pytest.raises(CompileError, match=r"WEFT-E1106: the cluster at .* has nobody who works"),
    ):
        place.machine(OPTIONS)


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(CompileError, match="WEFT-E1105") as caught:
        weft.tune(halve, (np.ones(3, np.float32),), trials=1, options=OPTIONS, cluster="tcp://a:1")
    assert caught.value.hint == "pip install 'weft[cluster]'"


# ---- processes -----------------------------------------------------------------------------------


@pytest.mark.long
def test_four_workers_search_three_times_as_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of trials a minute, where building and timing are sleep."""
    monkeypatch.setattr(clusters, "_processes", Slow)
    taken = {}
    for count in (1, 4):
        with (
            distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, processes=False, dashboard_address=None
            ) as made,
            cluster(made.scheduler_address) as place,
            Records(tmp_path / f"records {count}") as records,
        ):
            heard: list[float] = []
            lab = laboratory(place, tmp_path / "lab")
            tuner = Tuner(lab, records, lambda _, heard=heard: heard.append(time.perf_counter()))
            tuner.begin()
            begun = time.perf_counter()
            outcome = tuned(tuner, Budget(None, 24), 0)
            taken[count] = (heard[-1] - begun) / outcome.trials
    assert taken[1] / taken[4] >= 3, taken


class Slow(Far):
    build_seconds = 0.25  # of a small kernel's object code, see docs/decisions


def started(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", *arguments], stderr=subprocess.PIPE)


@pytest.mark.long
def test_real_workers_die_and_come_back(tmp_path: Path) -> None:
    """A scheduler and workers as users start them: one is killed with signal 9, then the scheduler
    is; the search goes on from its records with others."""
    path, port = tmp_path / "records", 18786
    args, options = (np.ones(1000, np.float32),), weft.Options(threads=1)
    address = f"tcp://127.0.0.1:{port}"
    scheduler = started("distributed.cli.dask_scheduler", "--port", str(port), "--no-dashboard")
    workers = [started("weft", "tune", "worker", address) for _ in range(2)]
    killed: list[int] = []

    def tell(name: str, best: float) -> None:
        if not killed:
            killed.append(workers[0].pid)
            os.kill(workers[0].pid, signal.SIGKILL)

    try:
        found = weft.tune(
            halve, args, trials=4, options=options, records=path, cluster=address, tell=tell
        )
        assert killed and found.trials > 0
        with Records(path) as records:
            before = len(list(records.exported()))
        scheduler.kill()
        with pytest.raises(CompileError, match="WEFT-E1106"):
            weft.tune(halve, args, trials=8, options=options, records=path, cluster=address)
        again = weft.tune(halve, args, trials=4, options=options, records=path)
        assert again.plan == found.plan and again.trials == found.trials
        with Records(path) as records:
            assert len(list(records.exported())) >= before > 0
    finally:
        for process in (scheduler, *workers):
            process.kill()
            process.wait()


def test_a_scheduler_that_goes_away_ends_the_search_and_not_its_records(
    far: Far, workers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "CONNECT", 1.0)

    def gone(self: Cluster, *_: Any, **__: Any) -> list[Result]:
        raise clusters._gone("tcp://a:1", "the scheduler does not answer")

    with cluster(workers.scheduler_address) as place, Records(tmp_path / "records") as records:
        count = 0
        real = Cluster._done

        def done(self: Cluster, *args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            return gone(self) if count > 25 else real(self, *args, **kwargs)

        monkeypatch.setattr(Cluster, "_done", done)
        with pytest.raises(CompileError, match="WEFT-E1106"):
            session(place, records, tmp_path / "lab")
        kept = len(list(records.exported()))
        monkeypatch.setattr(Cluster, "_done", real)
        timed = len(far.timed)
        outcome, _ = session(place, records, tmp_path / "lab")
        assert kept > 1 and outcome.trials >= 40
        again = len(far.timed) - timed
    with Records(tmp_path / "fresh") as records:
        whole = Far()
        session(whole, records, tmp_path / "lab")
    assert again < len(whole.timed)
