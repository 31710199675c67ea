"""``python -m tests.properties.fuzz --n 100000 [--seed 0] [--jobs 2]``: random affine programs
under random schedules, Weft against enumeration, for long. ``--mutations`` runs ``mutations``;
``--scheduler`` gives whole programs to the automatic scheduler instead (``scheduler``),
``--sources`` compiles and calls the text of kernels (``sources``), ``--hostile`` text that makes no
sense (``hostile``), ``--offloads`` compiles random work for accelerators (``offloads``),
``--products`` random products of matrices (``products``), ``--launches`` schedules programs for a
GPU (``launches``).
``--generator my:pair`` takes the pairs from a generator of your own
(``generators``).

Each contradiction is printed with its seed, then the histogram of what the pairs were. The exit
status says whether there was a contradiction. ``--only 123`` shows one pair, and where it fails a
smaller one that does, too.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

from tests.properties import (
    generators,
    hostile,
    launches,
    mutations,
    offloads,
    products,
    scheduler,
    sources,
)
from tests.properties.examine import Effort, Outcome, examine, examine_pair
from tests.properties.random_schedules import SCHEDULES, Pair, random_pair, subject_of
from tests.properties.shrinking import smaller
from weft.ir.schedule_printer import print_schedule
from weft.ir.scop_printer import scop_text

CHUNK = 50 * SCHEDULES  # pairs that one process of --jobs takes at a time
HANG = 120  # seconds after which a pair counts as one that never ends
ROOT = Path(__file__).parents[2]

Make = Callable[[int], Pair]

LEGAL = ("legal", "legal, storage changed")


FULL = Effort(1, 1, 1, 1)


def show(pair: Pair) -> str:
    """``pair`` as text."""
    of = pair.scheduled
    parts = [
        f"pair {pair.seed}: {pair.subject.affine.family}, {pair.moves}",
        scop_text(of.scop) + print_schedule(of.tree),
    ]
    if pair.changed:
        parts.insert(1, "from\n" + scop_text(of.original) + "to")
    return "\n".join(parts)


WRONG = ("legal but wrong", "illegal accepted", "crashes", "right but refused")


def wrong(outcome: Outcome) -> str:
    """Which of ``WRONG`` a contradiction is."""
    if outcome.kind in ("crash", "hang", "a transformation failed"):
        return "crashes"
    if outcome.problem.startswith("refused"):
        return "right but refused"
    return "legal but wrong" if outcome.kind in (*LEGAL, "legal, identity") else "illegal accepted"


class Tally:
    """What has been seen so far."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self.problems: list[tuple[int, str]] = []

    def add(self, seed: int, outcome: Outcome) -> None:
        self.kinds[outcome.kind] += 1
        self.notes.update(outcome.notes)
        if outcome.problem:
            self.wrong[wrong(outcome)] += 1
            self.problems.append((seed, outcome.problem))
            print(f"\nseed {seed}: {outcome.problem}", flush=True)

    def shares(self) -> str:
        """What was seen, the most frequent first."""
        every = [*self.kinds.most_common(), *sorted(self.notes.items())]
        return "\n".join(f"{n:7d}  {kind}" for kind, n in every)

    def histogram(self) -> str:
        total = max(1, sum(self.kinds.values()))
        lines = [f"{total} pairs"]
        lines += [f"  {100 * n / total:5.1f} %  {n:7d}  {kind}" for kind, n in
                  self.kinds.most_common()]  # fmt: skip
        good = sum(self.kinds[k] for k in LEGAL)
        lines.append(f"legal and not the identity: {100 * good / total:.1f} %")
        lines.append(
            f"illegal by one dependence: {100 * self.kinds['illegal by one'] / total:.1f} %"
        )
        moves = sorted((k[5:], n) for k, n in self.notes.items() if k.startswith("move "))
        lines.append("moves: " + ", ".join(f"{k} {n}" for k, n in moves))
        lines += [f"{k}: {n}" for k, n in sorted(self.notes.items()) if k.startswith("run ")]
        return "\n".join(lines)


def run_here(
    seeds: range, effort: Effort, make: Make = random_pair
) -> Iterator[tuple[int, Outcome]]:
    for seed in seeds:
        yield seed, examine(seed, effort, make)


# ---- several processes --------------------------------------------------------------------------


class _Worker:
    """A process that examines a chunk of seeds and says so line by line."""

    def __init__(self, seeds: range, options: argparse.Namespace) -> None:
        self.seeds = seeds
        self.next = seeds.start
        command = [sys.executable, "-m", "tests.properties.fuzz", "--worker"]
        command += ["--n", str(len(seeds)), "--seed", str(seeds.start)]
        command += ["--native", str(options.native), "--loop-ir", str(options.loop_ir)]
        command += ["--generator", options.generator] if options.generator else []
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
        )


def run_jobs(seeds: range, options: argparse.Namespace) -> Iterator[tuple[int, Outcome]]:
    """Chunks of ``seeds`` in processes of their own, so that a crash or a hang costs one pair."""
    from selectors import EVENT_READ, DefaultSelector

    waiting = [seeds[k : k + CHUNK] for k in range(0, len(seeds), CHUNK)]
    selector, running = DefaultSelector(), 0
    heard: dict[_Worker, float] = {}

    def start() -> None:
        nonlocal running
        while waiting and running < options.jobs:
            worker = _Worker(waiting.pop(0), options)
            selector.register(worker.process.stdout, EVENT_READ, worker)  # type: ignore[arg-type]
            heard[worker] = time.monotonic()
            running += 1

    def finish(worker: _Worker, why: str) -> Iterator[tuple[int, Outcome]]:
        nonlocal running
        selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        worker.process.kill()
        worker.process.wait()
        del heard[worker]
        running -= 1
        if worker.next < worker.seeds.stop:
            yield worker.next, Outcome(why, f"the process examining this pair: {why}")
            rest = range(worker.next + 1, worker.seeds.stop)
            if rest:
                waiting.insert(0, rest)

    start()
    try:
        while running:
            for key, _ in selector.select(timeout=5):
                worker = key.data
                line = worker.process.stdout.readline()
                if not line:
                    yield from finish(worker, "crash")
                    continue
                heard[worker] = time.monotonic()
                seed, kind, problem, notes = json.loads(line)
                worker.next = seed + 1
                yield seed, Outcome(kind, problem, Counter(notes))
            for worker in [w for w, at in heard.items() if time.monotonic() - at > HANG]:
                yield from finish(worker, "hang")
            start()
    finally:
        for worker in heard:
            worker.process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--native", type=float, default=Effort().native, help="share run compiled")
    parser.add_argument(
        "--loop-ir", type=float, default=Effort().loop_ir, help="share run as loop IR"
    )
    parser.add_argument("--generator", default="", help="module:function, see generators.py")
    parser.add_argument("--only", type=int, help="show one pair and what is wrong with it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--mutations", action="store_true", help="break correct schedules instead")
    parser.add_argument("--scheduler", action="store_true", help="automatic schedules instead")
    parser.add_argument("--sources", action="store_true", help="text of kernels instead")
    parser.add_argument("--hostile", action="store_true", help="programs without sense instead")
    parser.add_argument("--offloads", action="store_true", help="work for accelerators instead")
    parser.add_argument("--products", action="store_true", help="products of matrices instead")
    parser.add_argument("--launches", action="store_true", help="schedules for a GPU instead")
    options, rest = parser.parse_known_args()
    if options.mutations:
        return mutations.main(rest)  # which has options of its own
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    generator = generators.load(options.generator) if options.generator else None
    make = partial(generators.pair_of, generator) if generator else random_pair
    if options.scheduler:
        subject = partial(generators.subject_of, generator) if generator else subject_of
        return _programs(options, partial(scheduler.examine, subject=subject))
    if options.sources:
        return _programs(options, sources.examine)
    if options.hostile:
        return _programs(options, hostile.examine)
    if options.offloads:
        return _programs(options, offloads.examine)
    if options.products:
        return _programs(options, products.examine)
    if options.launches:
        return _programs(options, launches.examine)
    effort = Effort(native=options.native, loop_ir=options.loop_ir)
    seeds = range(options.seed, options.seed + options.n)
    if options.worker:
        for seed, outcome in run_here(seeds, effort, make):
            print(
                json.dumps([seed, outcome.kind, outcome.problem, dict(outcome.notes)]), flush=True
            )
        return 0
    if options.only is not None:
        return _only(options.only, make)
    return _long(seeds, effort, make, options)


def _programs(options: argparse.Namespace, examine_one: Callable[[int], Outcome]) -> int:
    _stop_early()
    tally = Tally()
    try:
        for seed in range(options.seed, options.seed + options.n):
            tally.add(seed, examine_one(seed))
    except KeyboardInterrupt:
        print("\nstopped early")
    print(tally.shares())
    print(f"{len(tally.problems)} contradictions in {sum(tally.kinds.values())} programs")
    return 1 if tally.problems else 0


def _stop_early() -> None:
    """Let both signals end a run where it is, so that it shows what there is."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def _only(seed: int, make: Make) -> int:
    """Show pair ``seed``, and where it fails a smaller one that does, too."""
    outcome = examine(seed, FULL, make)
    try:
        pair = make(seed)
    except generators.NoPair as error:
        print(error)
        return 0
    print(show(pair), outcome.kind, outcome.problem, sep="\n")
    if not outcome.problem:
        return 0
    small = smaller(pair, lambda p: examine_pair(p, Random(seed), FULL).problem)
    print("\nsmaller:", show(small), sep="\n")
    return 1


def _long(seeds: range, effort: Effort, make: Make, options: argparse.Namespace) -> int:
    _stop_early()
    tally, start = Tally(), time.perf_counter()
    found = run_here(seeds, effort, make) if options.jobs < 2 else run_jobs(seeds, options)
    count = 0
    try:
        for count, (seed, outcome) in enumerate(found, start=1):
            tally.add(seed, outcome)
            if sys.stdout.isatty() and count % 100 == 0:
                rate = count / (time.perf_counter() - start)
                print(f"\r{count}/{len(seeds)}, {rate:.0f}/s", end="", flush=True)
    except KeyboardInterrupt:
        print(f"\nstopped after {count} of {len(seeds)} pairs")
    seconds = time.perf_counter() - start
    print(f"\n{tally.histogram()}")
    print(", ".join(f"{tally.wrong[kind]} {kind}" for kind in WRONG))
    print(f"{len(tally.problems)} contradictions; {seconds:.0f} s, {count / seconds:.0f} pairs/s")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
