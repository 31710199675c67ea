"""``python -m tests.properties.fuzz --n 10000 [--seed 0]``: legality against enumeration, for long.

Every disagreement is printed with its seed; the exit status says whether there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace
from random import Random

from tests.properties.brute_force import Verdict, judge
from tests.properties.random_scops import random_scop, random_tree
from weft.errors import IllegalScheduleError
from weft.polyhedral.legality import check
from weft.polyhedral.schedule_tree import Band, Kind, Tree, walk
from weft.polyhedral.scop import Scop
from weft.polyhedral.transform.scheduled import with_loops


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
    return expected, _wrong_kind(scop, tree, truth)


def _wrong_kind(scop: Scop, tree: Tree, truth: Verdict) -> str:
    """Where legality and enumeration differ on one loop of a legal tree made concurrent, or ''."""
    forbidden: dict[Kind, frozenset[str]] = {
        "vector": truth.carries,
        "parallel": truth.carries | truth.carries_reduction,
    }
    names = [x.name for node in walk(tree) if isinstance(node, Band) for x in node.loops]
    for name in names:
        for kind, refused in forbidden.items():
            try:
                check(scop, _with_kind(tree, name, kind))
            except IllegalScheduleError as error:
                if name not in refused:
                    return f"{kind} loop {name} refused, but it is legal: {error}"
            else:
                if name in refused:
                    return f"{kind} loop {name} accepted, but it carries a dependence"
    return ""


def _with_kind(tree: Tree, name: str, kind: Kind) -> Tree:
    return with_loops(tree, lambda x: replace(x, kind=kind) if x.name == name else x)


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
