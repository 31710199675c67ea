"""Schedules as scripts: they rebuild them, differ line by line and run nothing."""

from __future__ import annotations

from random import Random

import pytest

import weft
from tests.polyhedral.transform.integer_programs import PROGRAMS, every, same
from tests.weft.scheduled_kernels import matmul, of, tiled
from weft.driver.schedule_value import Schedule
from weft.ir.errors import IllegalScheduleError
from weft.ir.schedule_printer import print_schedule
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.nest import build
from weft.polyhedral.transform.scheduled import tidy


def test_a_script_rebuilds_it() -> None:
    s = tiled()
    assert str(s) == (
        "s = weft.schedule(matmul)\n"
        's = s.distribute("i")\n'
        's = s.tile({"i_S1": 4, "j_S1": 8, "k": 3})\n'
        's = s.reorder(["k_p", "i_S1_p", "j_S1_p"])\n'
        's = s.vectorize("j_S1_p")\n'
        's = s.parallel("i_S1_t")'
    )
    names: dict[str, object] = {"weft": weft, "matmul": matmul}
    exec(str(s), names)
    assert names["s"] == s and hash(names["s"]) == hash(s)
    assert Schedule.from_script(str(s), matmul) == s
    assert Schedule.from_script(f"import weft\n# by hand\n{s}\nprint(s)\n", s) == s
    assert Schedule.from_script(str(s), matmul).show() == s.show()


def test_steps_one_behind_the_other() -> None:
    """As people write them: nothing of a line is dropped."""
    made = matmul.schedule().split("i", 4).unroll("i_p")
    for start in ("weft.schedule(matmul)", "matmul.schedule()", 'weft.schedules(p)["k"]', "s"):
        for script in (
            f"s = {start}.split('i', 4).unroll('i_p')",
            f"s = {start}\ns = (\n    s\n    .split('i', 4)\n    .unroll('i_p')\n)",
        ):
            assert Schedule.from_script(script, matmul) == made


def test_one_call_has_one_text() -> None:
    s = matmul.schedule()
    texts = [
        str(x.steps[0])
        for x in (s.unroll("k", 4), s.unroll("k", factor=4), s.unroll(loop="k", factor=4))
    ]
    assert set(texts) == {'unroll("k", 4)'}
    assert str(s.split("i", 4, tile="a", point=None).steps[0]) == 'split("i", 4, tile="a")'
    assert s.split("i", 4) == s.split(loop="i", size=4) != s.split("i", 5)


def test_diff() -> None:
    s = matmul.schedule().split("i", 4)
    assert s.diff(s) == ""
    assert s.vectorize("j").diff(s.parallel("i_t")).splitlines()[2:] == [
        "@@ -1,3 +1,3 @@",
        " s = weft.schedule(matmul)",
        ' s = s.split("i", 4)',
        '-s = s.vectorize("j")',
        '+s = s.parallel("i_t")',
    ]


@pytest.mark.parametrize(
    ("script", "why", "where"),
    [
        ("s = x\ns = s.explode(3)", "there is no transformation 'explode'", "line 2"),
        ("s = x\ns = s.split(loop)", "its arguments are no literals", "line 2"),
        ("s = x\ns.split('i', 4)", "expected s = s.step(…)", "line 2"),
        ("s = x\nfor i in range(3): pass", "expected s = s.step(…)", "line 2"),
        ("s = x\nt = s.split('i', 4)", "expected s = s.step(…)", "line 2"),
        ("s = x\ns = s.split(", "it is no Python", "line 2"),
        ("s = \0", "it is no Python", ""),
        ("", "it has no line s = weft.schedule(…)", ""),
        ("import weft", "it has no line s = weft.schedule(…)", ""),
        ("s = 3", "expected s = weft.schedule(…)", "line 1"),
        ("s = open('x').schedule", "expected s = weft.schedule(…)", "line 1"),
        ("s = x\ns = s", "expected s = s.step(…)", "line 2"),
        ("s = x\ns = t.split('i', 4)", "expected s = s.step(…)", "line 2"),
        ("s = weft.schedule(x).explode(3)", "there is no transformation 'explode'", "line 1"),
    ],
)
def test_what_is_no_script(script: str, why: str, where: str) -> None:
    with pytest.raises(IllegalScheduleError, match="E0018") as caught:
        Schedule.from_script(script, matmul)
    assert caught.value.why == why and caught.value.where.startswith(where)


def test_scripts_run_nothing() -> None:
    with pytest.raises(IllegalScheduleError, match="E0018"):
        Schedule.from_script("s = x\ns = s.split(__import__('os').getcwd(), 4)", matmul)


def wander(start: Schedule, seed: int) -> tuple[Schedule, int]:
    """``start`` after random steps, illegal ones refused, and how many of these there were."""
    r, s, refused = Random(seed), start, 0
    for _ in range(14):
        loop, other, statement = r.choice(s.loops), r.choice(s.loops), r.choice(list(s.statements))
        method, arguments = r.choice([
            ("split", (loop, r.choice((2, 3, 8)))), ("tile", ({loop: 4, other: 3},)),
            ("reorder", ([loop, other],)), ("fuse", (loop, other)), ("distribute", (loop,)),
            ("skew", (loop, other, r.choice((1, -1, 2)))), ("shift", (statement, loop, 1)),
            ("reverse", (loop,)), ("parallel", (loop,)), ("vectorize", (loop, 4)),
            ("unroll", (loop, 2)), ("unroll_and_jam", (loop, 2)), ("sink", ([loop],)),
            ("cut", (statement, [f"{r.choice(s.scheduled.scop.statement(statement).dims)} < 3"])),
        ])  # fmt: skip
        try:
            s = getattr(s, method)(*arguments)
        except IllegalScheduleError:
            refused += 1
    return s, refused


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_random_schedules(program: str) -> None:
    """Each computes the same, shows itself, and is rebuilt by its script; nests and sequences lead
    to its tree."""
    steps = refusals = 0
    for seed in range(6):
        s, refused = wander(of(program), seed)
        steps, refusals = steps + len(s.steps), refusals + refused
        same(s.scheduled, *every(s.scheduled.original, (0, 1, 6)))
        assert Schedule.from_script(str(s), of(program)).tree_text() == s.tree_text()
        if all(each.position for each in s.scheduled.scop.statements):
            made = build(initial(s.scheduled.scop), tidy(s.tree))
            assert print_schedule(made.tree) == print_schedule(tidy(s.tree))
            assert {step.name for step in made.steps} <= {"nest", "sequence", "tensorize"}
        assert "for " in s.show()
    assert steps > 15 and refusals > 5


def test_errors_name_their_line() -> None:
    chained = "s = x\ns = (\n    s\n    .split('i', 4)\n    .split('nowhere', 4)\n)"
    parallel = "s = x\ns = s.vectorize('k')\ns = s.parallel('k')"
    for script, code, where in (
        (chained, "E0450", "line 5: .split('nowhere', 4)"),
        ("s = x\ns = s.split('i')", "E0460", "line 2: s = s.split('i')"),
        (parallel, "E042", "line 3: s = s.parallel('k'), "),
    ):
        with pytest.raises(IllegalScheduleError, match=code) as caught:
            Schedule.from_script(script, matmul)
        assert caught.value.where.startswith(where)
