"""The canonical text is the same under other names and differs where anything else does."""

from __future__ import annotations

from dataclasses import replace

from weft.frontend import build as w
from weft.frontend.scalar_expr import Var, apply, literal, select
from weft.frontend.tensor_expr import Monoid, Program
from weft.polyhedral.canonical import canonical, canonical_text
from weft.polyhedral.from_tensor_expr import lower
from weft.polyhedral.scop import Scop
from weft.polyhedral.scop_verifier import verify


def example(names: str = "mnabcijrx", *, shift: int = 1, fold: str = "add", dtype: str = "float32"):
    """A padded matmul through a flattening; every name is one of ``names``."""
    m, n = w.var(names[0]), w.var(names[1])
    a = w.placeholder((m, n), dtype, name=names[2])
    b = w.placeholder((n, m), dtype, name=names[3])
    flat = w.reshape(a, (m * n,), name=names[4])
    i, j = names[5], names[6]
    r = w.reduce_axis((0, n), name=names[7])
    axes: dict[str, object] = {}

    def body(**at):
        x, y = at[i], at[j]
        inside = (x - shift >= 0) & (y + x < m)
        value = select(
            inside, a[x, r] * b[r, y] + a[w.minimum(x + r, m - 1), r], literal(1.5, dtype)
        )
        return w.reduce(w.monoid(fold, value.dtype), (value,), r)[0]

    exec(f"def call({i}, {j}): return body({i}={i}, {j}={j})", {"body": body}, axes)
    c = w.compute((m, m), axes["call"], name=names[8])
    k = w.reduce_axis((0, m * n), name=names[7])
    total = w.compute((), lambda: w.max_over(flat[k], k), name=names[8])
    return lower(Program("p", (a, b), (c, total)), f"scop of {names}")


def test_names_mean_nothing():
    texts = {
        canonical_text(example(names))
        for names in ("mnabcijrx", "nmbacjirx", "zyxwvutsr", "abcdefghi", "ihgfedcba")
    }
    assert len(texts) == 1


def test_anything_else_means_something():
    scop = example()
    first, *_, last = scop.statements
    changed = [
        scop,
        example(shift=0),
        example(fold="max"),
        example(dtype="float64"),
        replace(scop, statements=scop.statements[::-1]),
        replace(scop, tensors=scop.tensors[::-1]),
        replace(scop, context=scop.context[1:]),
        replace(scop, derived=((scop.derived[0][0], Var("m") * Var("m")),)),
        replace(scop, statements=(replace(first, domain=first.domain[1:]), *scop.statements[1:])),
        replace(scop, statements=(*scop.statements[:-1], replace(last, update=None))),
    ]
    assert len({canonical_text(s) for s in changed}) == len(changed)


def test_monoids_count_by_what_they_do():
    a = w.placeholder((3,), name="a")
    k = w.reduce_axis((0, 3), name="k")
    x, y = Var("x", a.dtype), Var("y", a.dtype)

    def text(monoid):
        t = w.compute((), lambda: w.reduce(monoid, (a[k],), k)[0], name="t")
        return canonical_text(lower(Program("p", (a,), (t,)), "p"))

    plus = Monoid("plus", (x,), (y,), (x + y,), (0,))
    assert (
        text(w.monoid("add", a.dtype))
        == text(plus)
        == text(replace(plus, left=(y,), right=(x,), combined=(y + x,)))
    )
    others = [
        replace(plus, combined=(x - y,)), replace(plus, identity=(1,)),
        replace(plus, laws=frozenset()), replace(plus, combined=(apply("max", x, y),)),
    ]  # fmt: skip
    assert len({text(m) for m in (plus, *others)}) == 5


def test_the_canonical_scop_is_a_scop_and_its_own_canonical_form():
    scop: Scop = canonical(example())
    verify(scop)
    assert canonical(scop) == scop
