"""``python -m tests.properties.fuzz --n 10000 [--seed 0]``: legality against enumeration, for long.

Every disagreement is printed with its seed; the exit status says whether there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random

from tests.properties.brute_force import judge
from tests.properties.random_scops import random_scop, random_tree
from weft.errors import IllegalScheduleError
from weft.polyhedral.analysis.loop_kinds import concurrency
from weft.polyhedral.legality import check
from weft.polyhedral.schedule_printer import print_schedule


def disagreement(seed: int) -> tuple[str, str]:
    """(what the verdict on pair ``seed`` is, how Weft and enumeration differ on it or '')."""
    random = Random(seed)
    scop = random_scop(random)
    tree = random_tree(random, scop)
    truth = judge(scop, tree)
    expected = "legal" if truth.legal and truth.injective else "illegal"
    try:
        check(scop, tree)
    except IllegalScheduleError as error:
        if expected == "legal":
            return expected, f"refused, but it is legal: {error}"
        if not truth.injective and error.code == "WEFT-E0413":
            return "not injective", ""
        return expected, "" if not truth.legal else f"refused for a wrong reason: {error}"
    if expected == "illegal":
        return expected, "accepted, but it is illegal"
    found = concurrency(scop, tree)
    if found.vector & truth.carries or found.parallel & truth.carries_reduction:
        return expected, f"a loop carries a dependence, but is called {found}"
    all_loops = {line.split()[1] for line in print_schedule(tree).splitlines() if "for " in line}
    if all_loops - truth.carries != found.vector:
        return expected, f"{found}, but only {sorted(truth.carries)} carry dependences"
    if all_loops - truth.carries - truth.carries_reduction != found.parallel:
        return expected, f"{found}, but only {sorted(truth.carries_reduction)} carry reductions"
    return expected, ""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--n", type=int, default=1000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    kinds: Counter[str] = Counter()
    failures = 0
    start = time.perf_counter()
    for seed in range(given.seed, given.seed + given.n):
        kind, problem = disagreement(seed)
        kinds[kind] += 1
        if problem:
            failures += 1
            print(f"seed {seed}: {problem}")
    print(f"{dict(kinds)}, {failures} disagreements, {time.perf_counter() - start:.1f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
