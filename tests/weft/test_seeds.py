"""Seeds: schedules that users bring, chosen by their price, proved like any other."""

# ruff: noqa: F821, UP037  (sizes of a signature are names in the function's body)

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.weft.registered import forgotten
from weft.driver import seeds
from weft.driver.targets import target_for
from weft.ir.errors import CompileError, PlanError
from weft.polyhedral.cost import text as cost_text
from weft.polyhedral.cost.text import Told

EXTENDING = Path(__file__).parents[2] / "docs/extending.md"


@weft.kernel
def product(A: weft.f64["N", "N"], B: weft.f64["N", "N"], C: weft.f64["N", "N"]):
    for i in range(N):
        for j in range(N):
            for k in range(N):
                C[i, j] += A[i, k] * B[k, j]


@weft.kernel
def prefix(A: weft.f64["N"]):
    for i in range(1, N):
        A[i] += A[i - 1]


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    with forgotten():
        yield


def tiles(s, machine, choose):
    (name,) = s.statements
    rows = choose("rows", (4, 6, 8), 8)
    lanes = 3 * machine.vector_bytes // 8
    loops = {"i_t": "i // 96", "j_r": f"j // {lanes}", "i_r": f"i // {rows}", "k": "k",
             "i_p": f"i % {rows}", "j_p": f"j % {lanes}"}  # fmt: skip
    return s.nest(name, loops).tensorize(["k"], {"i_p": rows}, {"j_p": lanes})


def backwards(s, machine, choose):
    return s.reverse(s.loops[0])


def scattered(s, machine, choose):
    """What nobody would choose: columns of both operands."""
    (name,) = s.statements
    return s.nest(name, {"j": "j", "k": "k", "i": "i"})


def options(*seeds: object) -> weft.Options:
    return weft.Options(seeds=seeds, threads=1)  # type: ignore[arg-type]


def correct(run: weft.Executable) -> None:
    for n in (0, 1, 5, 31, 97):
        a, b, c = np.random.default_rng(n).standard_normal((3, n, n))
        wanted = c + a @ b
        run(a, b, c)
        np.testing.assert_allclose(c, wanted, atol=1e-10)


def test_the_cheapest_is_taken_and_a_plan_may_say_another() -> None:
    known = options(tiles, scattered)
    run = product.compile(options=known)
    (decision,) = [d for d in run.plan.decisions if d.name == "product.seed"]
    seconds = {o.value: o.seconds for o in decision.options}
    assert list(seconds) == ["automatic", "tiles", "scattered"]
    assert all(seconds.values())
    assert decision.chosen == min(seconds, key=lambda name: seconds[name] or 0) != "scattered"
    correct(run)
    for name in seconds:
        made = weft.compile(product, options=known, plan={"product.seed": name})
        assert made.plan["product.seed"] == name
        correct(made)
    texts = {
        weft.compile(product, options=known, plan={"product.seed": n}).source("llvm")
        for n in seconds
    }
    assert len(texts) == 3


def test_what_a_seed_leaves_open_is_a_decision() -> None:
    plan = {"product.seed": "tiles", "tiles.rows": 4}
    run = weft.compile(product, options=options(tiles), plan=plan)
    assert run.plan["tiles.rows"] == 4
    assert "RegisterTile(rows=(4,)" in run.as_text("schedule")
    correct(run)
    with pytest.raises(PlanError, match="E0026"):
        weft.compile(product, options=options(tiles), plan={"tiles.rows": 5})


def test_a_seed_whose_steps_are_refused_does_not_apply() -> None:
    run = prefix.compile(options=options(backwards))
    assert "prefix.seed" not in run.plan
    assert "seed backwards: WEFT-E0420" in run.explain()
    a = np.arange(9.0)
    run(a)
    np.testing.assert_array_equal(a, np.cumsum(np.arange(9.0)))


def test_a_seed_may_have_nothing_to_say() -> None:
    plain = product.compile(options=weft.Options(threads=1, cache=False))
    assert product.compile(options=options(lambda *_: None)).source("llvm") == plain.source("llvm")


def test_functions_may_be_called_alike() -> None:
    def twice(change):
        def rows(s, machine, choose):
            (name,) = s.statements
            return s.nest(name, change)

        return rows

    known = options(twice({"j": "j"}), twice({"k": "k"}))
    (decision,) = product.compile(options=known).plan.decisions[-1:]
    assert [o.value for o in decision.options] == ["automatic", "rows", "rows_2"]


def test_registered_ones_go_by_name() -> None:
    weft.seed(tiles)
    weft.seed("other")(scattered)
    run = product.compile(options=options("tiles", "other"))
    (decision,) = [d for d in run.plan.decisions if d.name == "product.seed"]
    assert [o.value for o in decision.options] == ["automatic", "tiles", "other"]
    with pytest.raises(CompileError, match="E0008") as caught:
        product.compile(options=options("tile"))
    assert "tiles" in str(caught.value.hint)
    with pytest.raises(CompileError, match="E0005"):
        weft.seed("tiles")(backwards)
    with pytest.raises(CompileError, match="E0006"):
        weft.seed("none")(3)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        (lambda s, machine, choose: 3, "it gives 3, neither a schedule nor None"),
        (lambda s, machine, choose: 1 // 0, "ZeroDivisionError"),
        (lambda s: s, "TypeError"),
        (lambda s, machine, choose: sys.exit(3), "SystemExit: 3"),
        (lambda s, machine, choose: prefix.schedule(), "it gives a schedule of another program"),
        (lambda s, machine, choose: s.automatic(), "has no automatic()"),
    ],
    ids=["number", "exception", "one parameter", "exit", "another program", "automatic"],
)
def test_seeds_that_fail(seed: object, why: str) -> None:
    with pytest.raises(CompileError, match="E0341") as caught:
        product.compile(options=options(seed))
    assert why in str(caught.value.why)


@pytest.mark.parametrize("given", [tiles, ["tiles"], (3,)], ids=["function", "list", "number"])
def test_options_check_them(given: object) -> None:
    with pytest.raises(CompileError, match="E0001"):
        weft.Options(seeds=given)  # type: ignore[arg-type]


@weft.kernel
def transposed(P: weft.f32["N", "M"], Q: weft.f32["L", "M"], R: weft.f32["N", "L"]):
    for r in range(N):
        for q in range(L):
            R[r, q] = 1.0
            for t in range(M):
                R[r, q] += Q[q, t] * P[r, t]


@weft.kernel
def squared(P: weft.i32["N", "M"], R: weft.i32["N", "N"]):
    for r in range(N):
        for q in range(N):
            for t in range(M):
                R[r, q] += P[r, t] * P[q, t]


def documented() -> weft.Options:
    """With the seed of docs/extending.md, and no other."""
    blocks = re.findall(r"```python\n(@weft\.seed\n.*?)```", EXTENDING.read_text(), re.DOTALL)
    names: dict[str, object] = {"weft": weft}
    exec(blocks[0], names)
    return options(names["packed_product"])


@pytest.mark.long
def test_the_documents_seed_takes_any_product_of_loops() -> None:
    known = documented()
    plan = {"transposed.seed": "packed_product"}
    first = weft.compile(transposed, options=known, plan=plan)
    second = weft.compile(squared, options=known, plan={"squared.seed": "packed_product"})
    for n, columns, m in ((0, 1, 2), (1, 1, 1), (7, 9, 13), (97, 131, 300)):
        generator = np.random.default_rng(n)
        p, q = (generator.integers(-4, 5, (rows, m)) for rows in (n, columns))
        r, s = np.full((n, columns), np.nan, np.float32), np.ones((n, n), np.int32)
        first(p.astype(np.float32), q.astype(np.float32), r)
        second(p.astype(np.int32), s)
        np.testing.assert_array_equal(r, 1 + p @ q.T)
        np.testing.assert_array_equal(s, 1 + p @ p.T)


@pytest.mark.parametrize(("batch", "dtype"), [((), "float64"), ((3,), "float32")])
def test_the_documents_seed_takes_any_product_of_tensors(
    batch: tuple[int, ...], dtype: str
) -> None:
    n = weft.var("n")
    x = weft.placeholder((*batch, n, 33), dtype, name="x")
    y = weft.placeholder((*batch, 33, 70), dtype, name="y")
    k = weft.reduce_axis((0, 33), name="k")
    z = weft.compute(
        (*batch, n, 70),
        lambda *i: weft.maximum(weft.sum(x[(*i[:-1], k)] * y[(*i[:-2], k, i[-1])], k), 0),
        name="z",
    )
    known = documented()
    name = next(iter(weft.schedules(z, options=known)))
    run = weft.compile(z, options=known, plan={f"{name}.seed": "packed_product"})
    for rows in (0, 1, 101):
        generator = np.random.default_rng(rows)
        a, b = (generator.integers(-4, 5, (*batch, *shape)).astype(dtype)
                for shape in ((rows, 33), (33, 70)))  # fmt: skip
        np.testing.assert_array_equal(run(a, b), np.maximum(a @ b, 0))


def test_the_documents_seed_leaves_others_alone() -> None:
    """A sum of one operand, and a product with a vector."""
    assert "prefix.seed" not in prefix.compile(options=documented()).plan
    x, y = weft.placeholder((5, 7), name="x"), weft.placeholder((7,), name="y")
    k = weft.reduce_axis((0, 7), name="k")
    z = weft.compute((5,), lambda i: weft.sum(x[i, k] * y[k], k), name="z")
    assert not any(name.endswith(".seed") for name in weft.compile(z, options=documented()).plan)


def test_a_seed_sees_the_program() -> None:
    s = weft.schedule(transposed)
    first, p = s.scop.statements
    assert (first.name, p.name) == tuple(s.statements)
    assert (p.dims, first.dims, s.loops) == (("r", "q", "t"), ("r", "q"), ("r", "q", "t"))
    assert first.update is None and p.update is not None
    assert (p.update.monoid.name, p.update.dims) == ("add", ("t",))
    (target,) = p.writes
    assert [a.tensor for a in (*p.reads, target)] == ["Q", "P", "R"]
    assert [[a.axis(d) for d in p.dims] for a in (*p.reads, target)] == [
        [None, 0, 1], [0, None, 1], [0, 1, None]
    ]  # fmt: skip
    assert [[a.moves(d) for d in p.dims] for a in p.reads] == [[0, 1, 1], [1, 0, 1]]
    assert s.scop.tensor("P").dtype == weft.float32 and s.scop.tensor("P").sizes == (None, None)
    assert s.extent(p.name, "t") is None and s.scop.parameters == ("N", "M", "L")
    assert s.scop_text() == weft.lower(transposed).as_text("scop").rstrip()
    with pytest.raises(CompileError, match="E0451"):
        s.extent("S9", "t")
    with pytest.raises(CompileError, match="E0460") as caught:
        s.extent(p.name, "k")
    assert "dims: r, q, t" in caught.value.hint


@weft.kernel
def shifted(A: weft.f64[30, 30], p: weft.i64[20]):
    for i in range(1, 19):
        for j in range(i, 30):
            A[i, j] = A[i - 1, j] + A[i + j - j, i + 1] + A[p[i], j] + A[j - 1, j]


def test_axes_of_what_is_no_product() -> None:
    s = weft.schedule(shifted)
    statement = s.scop.statements[-1]
    reads = [a for a in statement.reads if a.tensor == "A" and not a.may]
    assert [[a.axis(d) for d in ("i", "j")] for a in reads] == [
        [None, 1],
        [None, None],
        [None, None],
    ]
    assert [[a.moves(d) for d in ("i", "j")] for a in reads] == [[1, 1], [1, 0], [0, 1]]
    assert [a.tensor for a in statement.reads if a.may] == ["A"]
    assert s.extent(statement.name, "i") == 18 and s.extent(statement.name, "j") is None
    assert s.scop.tensor("A").sizes == (30, 30)


def test_models_have_them_too() -> None:
    x, y = (weft.placeholder((64, 64), name=name) for name in "xy")
    k = weft.reduce_axis((0, 64), name="k")
    z = weft.compute((64, 64), lambda i, j: weft.sum(x[i, k] * y[k, j], k), name="z")

    def rows(s, machine, choose):
        first, second = s.statements
        return s.sequence([first, second]).nest(second, {"i": "i", "k": "k", "j": "j"})

    known = options(rows)
    name = next(iter(weft.schedules(z, options=known)))
    run = weft.compile(z, options=known, plan={f"{name}.seed": "rows"})
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(np.float32)
    np.testing.assert_allclose(run(a, b), a @ b, rtol=1e-4, atol=1e-4)


@weft.kernel
def scan(A: weft.f64["N", "N"]):
    for i in range(1, N):
        for j in range(N - 1):
            A[i, j] = A[i - 1, j + 1] + 0.5 * A[i, j]


def illegal(s, machine, choose):
    choose("way", ("a", "b"), "a")
    return s.parallel("i")


def test_an_illegal_seed_of_a_plan_says_why() -> None:
    for plan, code in (({"scan.seed": "illegal"}, "E0028"), ({"illegal.way": "b"}, "E0025")):
        with pytest.raises(PlanError, match=code) as caught:
            weft.compile(scan, options=options(illegal), plan=plan)
        why = caught.value.why
        assert 'WEFT-E0421: parallel("i")' in why
        assert "S0[i=1, j=1] writes A[1, 1] before S0[i=2, j=0] reads it" in why
    known = weft.compile(scan, options=options(illegal), plan={"scan.seed": "automatic"})
    assert "illegal.way" not in known.plan
    with pytest.raises(PlanError, match="E0026"):
        weft.compile(scan, options=options(illegal), plan={"scan.seed": "another"})


def test_a_seed_of_a_plan_that_has_nothing_to_say() -> None:
    def nothing(s, machine, choose):
        return None

    with pytest.raises(PlanError, match="E0028") as caught:
        weft.compile(scan, options=options(nothing), plan={"scan.seed": "nothing"})
    assert caught.value.why == "it gives no schedule of scan"


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        ({"product.seed": "tiles", "S0.j_tile": 48}, "seed is tiles, which asks for tiles.rows"),
        ({"product.seed": "scattered", "tiles.rows": 4}, "scattered, which asks for nothing"),
        ({"product.seed": "automatic", "tiles.rows": 4}, "product.seed is automatic"),
        ({"product.seed": "tiles", "tiles.row": 4}, "all that is decided about tiles: tiles.rows"),
    ],
)  # fmt: skip
def test_what_changes_nothing_is_refused(plan: dict[str, str | int], why: str) -> None:
    with pytest.raises(PlanError, match="E0025") as caught:
        weft.compile(product, options=options(tiles, scattered), plan=plan)
    assert why in caught.value.why


def test_its_plan_has_what_it_asks_for_and_leads_to_the_same_code() -> None:
    known = options(tiles, scattered)
    made = weft.compile(product, options=known, plan={"product.seed": "tiles", "tiles.rows": 6})
    assert dict(made.plan) == {"product.seed": "tiles", "tiles.rows": 6}
    again = weft.compile(product, options=known, plan=str(made.plan))
    assert again.source("llvm") == made.source("llvm")


@pytest.mark.parametrize("default", [5, "8", True, None])
def test_a_default_is_one_of_the_options(default: object) -> None:
    def rows(s, machine, choose):
        choose("rows", (1, 4, 8), default)

    with pytest.raises(CompileError, match="E0341") as caught:
        product.compile(options=options(rows))
    assert f"the default {default!r} is none of its options: 1, 4, 8" in caught.value.why


def line(text: str, name: str) -> str:
    (found,) = (part.strip() for part in text.splitlines() if part.strip().startswith(f"{name}: "))
    return found


@pytest.mark.parametrize("name", ["automatic", "tiles"])
def test_the_price_of_a_seed_is_the_estimate_of_its_program(name: str) -> None:
    """In the same unit, for the same sizes as the estimate that ``explain`` has."""
    run = weft.compile(product, options=options(tiles), plan={"product.seed": name})
    (decision,) = (d for d in run.plan.decisions if d.name == "product.seed")
    estimate = re.search(r"estimate (\S+ ms) for (N = \d+):", run.explain())
    assert estimate
    said = line(run.explain(), "product.seed")
    assert said == str(decision)
    assert said.startswith(f"product.seed: {name} ({estimate[1]}), as the plan says; else ")
    assert said.endswith(f"; estimated for {estimate[2]}")
    again = weft.Plan.read(str(run.plan))
    (copied,) = (d for d in again.decisions if d.name == "product.seed")
    for mine, other in zip(decision.options, copied.options, strict=True):
        assert mine.value == other.value and mine.seconds == pytest.approx(other.seconds, rel=1e-3)


def test_explain_warns_of_what_is_taken_for_its_price() -> None:
    """Where nobody says otherwise."""
    warned = "because its estimate is the least, which may be up to four times off as a time: "
    for plan in ({}, {"product.seed": "tiles"}):
        run = weft.compile(product, options=options(tiles), plan=plan)
        assert (warned in run.explain()) == (not plan)


def test_without_a_price_wefts_own_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(scheduled, machine, threads):
        return Told(None, why="no estimate") if scheduled.notes == ("seed tiles",) else priced

    priced = cost_text.told(
        product.schedule().scheduled, target_for(weft.Options(threads=1)).machine
    )
    monkeypatch.setattr(seeds, "told", told)
    run = product.compile(options=options(scattered, tiles))
    (decision,) = (d for d in run.plan.decisions if d.name == "product.seed")
    assert decision.chosen == "automatic" and decision.why == "tiles has no estimate to compare"
    assert [o.priced for o in decision.options] == [True, True, False]


def test_a_price_for_several_threads_says_so() -> None:
    run = product.compile(options=weft.Options(seeds=(tiles,), threads=4))
    assert line(run.explain(), "product.seed").endswith("; estimated for N = 1000 on 4 threads")


def named_as_wefts(s, machine, choose):
    """Its decisions are called as Weft calls its own."""
    (name,) = s.statements
    rows = choose("i_tile", (1, 4), 1)
    columns = choose("strip", (1, 8), 1)
    choose("strategy", ("a", "b"), "b")
    choose("seed", ("a", "b"), "a")
    loops = {"j_s": f"j // {columns}", "i_r": f"i // {rows}", "k": "k", "i_p": f"i % {rows}",
             "j_p": f"j % {columns}"}  # fmt: skip
    return s.nest(name, loops).tensorize(["k"], {"i_p": rows}, {"j_p": columns})


def test_explain_gives_what_a_seed_takes_no_reason_of_wefts() -> None:
    plan = {"product.seed": "named_as_wefts"}
    run = weft.compile(product, options=options(named_as_wefts), plan=plan)
    text = run.explain(details=True)
    for kind in ("i_tile", "strip"):
        assert re.fullmatch(
            rf"named_as_wefts\.{kind}: 1 \([^)]*s\); else \d \([^)]*s\);"
            " not by the estimate: it is what seed named_as_wefts takes by itself",
            line(text, f"named_as_wefts.{kind}"),
        )
    for said in (run.explain(), text):  # all options of what is no strategy, and no sizes
        assert line(said, "named_as_wefts.strategy").partition("; else a")[1]
        assert "estimated for" not in line(said, "named_as_wefts.seed")
    assert "    seed named_as_wefts" in text.splitlines()


@pytest.mark.parametrize(
    ("again", "default"), [((4, 8), 4), ((8, 4), 8), ((4, 8, 16), 8), (("4", "8"), "8")]
)
def test_a_name_stands_for_one_question(again: tuple[object, ...], default: object) -> None:
    def rows(s, machine, choose):
        assert choose("rows", (4, 8), 8) == choose("rows", [4, 8], 8) == 8
        choose("rows", again, default)

    with pytest.raises(CompileError, match="E0341") as caught:
        product.compile(options=options(rows))
    now = ", ".join(map(repr, again))
    assert caught.value.why == f"rows is asked for twice: 8 of 4, 8, and now {default!r} of {now}"


def test_a_seed_asks_for_no_decision_of_wefts() -> None:
    def taken(s, machine, choose):
        choose("k_tile", (1, 2), 1)

    weft.seed("S0")(taken)
    with pytest.raises(CompileError, match="E0341") as caught:
        product.compile(options=options("S0"))
    assert caught.value.why.startswith("S0.k_tile is a decision of Weft's")


def test_options_are_what_a_plan_can_say() -> None:
    def halves(s, machine, choose):
        choose("part", (0.5, 1.0), 0.5)

    with pytest.raises(CompileError, match="E0341") as caught:
        product.compile(options=options(halves))
    assert caught.value.why == "part: options are texts, integers and booleans, not 0.5, 1.0"


def endless(s, machine, choose):
    while True:
        pass


def stubborn(s, machine, choose):
    """It goes on behind whatever is raised, the first time."""
    try:
        endless(s, machine, choose)
    except BaseException:
        endless(s, machine, choose)


def stepping(s, machine, choose):
    while True:
        s = s.reverse(s.loops[0])


@pytest.mark.parametrize("seed", [endless, stubborn, stepping])
def test_a_seed_that_does_not_end_is_refused(seed: object) -> None:
    known = weft.Options(seeds=(seed,), threads=1, job_seconds=0.2)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match="E0341") as caught:
        product.compile(options=known)
    assert caught.value.why == "it takes more than 0.2 s, Options.job_seconds"
    correct(product.compile(options=options(tiles)))  # nothing of it is left


def test_a_seed_that_fails_says_where() -> None:
    def fails(s, machine, choose):
        return {}["none"]

    with pytest.raises(CompileError, match="E0341") as caught:
        product.compile(options=options(fails))
    code = fails.__code__
    assert caught.value.where == f"{code.co_filename}:{code.co_firstlineno + 1}"


def test_a_refused_step_names_the_dims_that_there_are() -> None:
    def other(s, machine, choose):
        return s.nest("S0", {"i": "q"})

    text = product.compile(options=options(other)).explain()
    told = "the statement has the dims i, j, k, the program the sizes N"
    assert any("seed other: WEFT-E0412: " in x and told in x for x in text.splitlines())
