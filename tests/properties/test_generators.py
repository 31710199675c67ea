"""Generators of others: the one in the documentation, wrong ones, hostile ones."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.polyhedral.transform.integer_programs import read
from tests.properties import generators
from tests.properties.examine import Effort, examine
from tests.properties.generators import NoPair, load, pair_of
from weft.ir.scalar_expr import Var, literal
from weft.ir.schedule_tree import Band, Leaf, Loop
from weft.ir.scop import Access, Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.skew import skew

ROOT = Path(__file__).parents[2]
EFFORT = Effort(0, 1, 1, 0)


def documented() -> str:
    """The generator that the module shows."""
    lines = (generators.__doc__ or "").splitlines()
    start = next(k for k, line in enumerate(lines) if "# my_pairs.py" in line)
    end = next(k for k, line in enumerate(lines) if line.startswith("What it returns"))
    return textwrap.dedent("\n".join(lines[start:end]))


def test_the_generator_in_the_documentation(tmp_path: Path) -> None:
    (tmp_path / "my_pairs.py").write_text(documented())
    command = [sys.executable, "-m", "tests.properties.fuzz", "--generator", "my_pairs:pair"]
    done = subprocess.run(
        [*command, "--n", "24", "--loop-ir", "1"],
        cwd=ROOT, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "24 pairs" in done.stdout and "illegal by" in done.stdout
    assert "0 legal but wrong, 0 illegal accepted, 0 crashes, 0 right but refused" in done.stdout


def outcomes(given: Iterator[object]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in given:
        outcome = examine(0, EFFORT, partial(pair_of, lambda _, x=one: x))  # type: ignore[misc]
        assert not outcome.problem, outcome.problem
        found[outcome.kind] += 1
    return found


def sums() -> Scop:
    return read("for i in range(N):\n s[0] += A[i]", A="in N", s="io 1")


def test_every_form() -> None:
    scop, N = sums(), [{"N": 0}, {"N": 4}]
    tree = initial(scop).tree
    found = outcomes(iter((scop, (scop, tree), initial(scop), (initial(scop), N))))
    assert found == {"legal, identity": 4}
    with pytest.raises(TypeError, match="no str"):
        pair_of(lambda _: "N", 0)  # type: ignore[arg-type, return-value]


def hostile() -> Iterator[object]:
    """Programs and trees that are none, or too much."""
    scop = sums()
    tree = initial(scop).tree
    i, many = Var("i"), 1 << 62

    other = partial(changed, scop)
    yield other(reads=(Access("A", (i, i)),))  # ranks that differ
    yield other(reads=(Access("B", (i,)),))
    yield other(reads=(Access("A", (Var("j"),)),))
    yield other(reads=())
    yield other(dims=("i", "i"))
    yield other(domain=())  # without end
    yield other(reads=(Access("A", (i * many,)),))
    yield other(reads=(Access("A", (i * i,)),))
    yield other(reads=(Access("A", (i - (1 << 63),)),))
    for at in (literal(0), i * many, i * -1, i // (1 << 40), i * i, Var("j"), i % 2):
        yield scop, Band((Loop("i", {"S0": at}),), Leaf("S0"))
    yield scop, Band((Loop("i", {}),), Leaf("S0"))
    yield scop, Band((Loop("i", {"S0": i}), Loop("i", {"S0": i})), Leaf("S0"))
    yield scop, Band((Loop("i", {"S0": i}),), Leaf("S1"))
    yield scop, Leaf("S0")
    yield (scop, tree), [{"N": 1 << 40}]


def changed(scop: Scop, **changes: object) -> Scop:
    return replace(scop, statements=(replace(scop.statements[0], **changes),))  # type: ignore[arg-type]


def test_what_cannot_be_examined_is_said() -> None:
    found = outcomes(hostile())
    assert sum(found.values()) > 15, found


def test_a_generator_that_is_not_there() -> None:
    for name in ("nothing:here", "json:nothing", ""):
        with pytest.raises(SystemExit, match="--generator"):
            load(name)


def test_refusals_of_the_generators_own() -> None:
    with pytest.raises(NoPair, match="refused when made"):
        pair_of(lambda _: skew(initial(sums()), "i", "i", 1), 0)
