"""Which nests run under common loops."""

from __future__ import annotations

from tests.polyhedral.transform.harness import (
    chain,
    lowered,
    matmul,
    random_scops,
    stencil,
    tensor,
)
from weft import dtypes
from weft.frontend import build as w
from weft.frontend.scalar_expr import Expr, select
from weft.polyhedral.grouping import (
    Group,
    aligned,
    folds,
    groups_of,
    is_contraction,
    recurrent_dims,
    spatial_dims,
)
from weft.polyhedral.legality import check
from weft.polyhedral.scop import Scop
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.order import order
from weft.polyhedral.transform.scheduled import loops_above
from weft.polyhedral.transform.share import share


def shape_of(of: Scop) -> list[tuple[tuple[str, ...], list[dict[str, str]]]]:
    return [(g.names, [dict(d.dims) for d in g.shared]) for g in groups_of(of)]


def test_elementwise_chains_share_all_loops() -> None:
    assert shape_of(chain()) == [(("T", "Y"), [{"T": "i", "Y": "i"}])]


def test_a_reduction_takes_its_start_and_its_epilogue_along() -> None:
    names = ("C_add_init", "C_add", "D")
    assert shape_of(matmul()) == [
        (names, [dict.fromkeys(names, "i"), dict.fromkeys(names, "j")]),
    ]


def test_windows_do_not_fuse_at_a_distance() -> None:
    assert [names for names, _ in shape_of(stencil())] == [("T",), ("Y",)]


def test_a_transpose_aligns_other_dims() -> None:
    x = tensor("X", 64, 32)
    y = w.compute((64, 32), lambda i, j: x[i, j] * 2, name="Y")
    z = w.compute((32, 64), lambda a, b: y[b, a] + 1, name="Z")
    assert shape_of(lowered(y, z, inputs=(x,))) == [
        (("Y", "Z"), [{"Y": "i", "Z": "b"}, {"Y": "j", "Z": "a"}])
    ]


def softmax(rows: int = 64, columns: int = 48) -> Scop:
    x, r = tensor("X", rows, columns), w.reduce_axis((0, columns), name="r")
    top = w.compute((rows,), lambda i: w.max_over(x[i, r], r), name="M")
    e = w.compute((rows, columns), lambda i, j: (x[i, j] - top[i]) * 3, name="E")
    total = w.compute((rows,), lambda i: w.sum(e[i, r], r), name="S")
    y = w.compute((rows, columns), lambda i, j: e[i, j] - total[i], name="Y")
    return lowered(y, inputs=(x,))


def test_softmax_is_one_group_over_rows() -> None:
    ((names, shared),) = shape_of(softmax())
    assert len(names) == 6 and shared == [dict.fromkeys(names, "i")]


def row_sums(rows: int, columns: int = 48) -> Scop:
    x, r = tensor("X", rows, columns), w.reduce_axis((0, columns), name="r")
    t = w.compute((rows, columns), lambda i, j: x[i, j] * 3, name="T")
    s = w.compute((rows,), lambda i: w.sum(t[i, r], r), name="S")
    return lowered(s, inputs=(x,))


def test_loops_are_given_up_only_while_enough_stay_parallel() -> None:
    """T would share its rows only: 64 of them are enough, 2 are not."""
    assert len(groups_of(row_sums(64))) == 1
    assert len(groups_of(row_sums(2))) == 2


def test_loops_are_given_up_only_while_temporaries_stay_near() -> None:
    """A row of T has to fit a near cache."""
    assert len(groups_of(row_sums(64, 100_000))) == 2


def test_a_contraction_keeps_its_register_tile() -> None:
    """A product of a product: the second shares rows only, so it stays apart."""
    a, b, c = tensor("A", 64, 16), tensor("B", 16, 48), tensor("C", 48, 32)
    r, s = w.reduce_axis((0, 16), name="r"), w.reduce_axis((0, 48), name="s")
    d = w.compute((64, 48), lambda i, j: w.sum(a[i, r] * b[r, j], r), name="D")
    e = w.compute((64, 32), lambda i, j: w.sum(d[i, s] * c[s, j], s), name="E")
    of = lowered(e, inputs=(a, b, c))
    assert [names for names, _ in shape_of(of)] == [
        ("D_add_init", "D_add"),
        ("E_add_init", "E_add"),
    ]
    assert is_contraction(of.statement("E_add")) and spatial_dims(of.statement("E_add")) == (
        "i",
        "j",
    )


def test_a_reader_of_two_groups_brings_them_together() -> None:
    """Y and Z are computed apart, and both feed S."""
    x, u = tensor("X", 32), tensor("U", 32)
    y = w.compute((32,), lambda i: x[i] * 2, name="Y")
    z = w.compute((32,), lambda i: u[i] * 3, name="Z")
    s = w.compute((32,), lambda i: y[i] + z[i], name="S")
    assert [names for names, _ in shape_of(lowered(s, inputs=(x, u)))] == [("Y", "Z", "S")]


def test_a_group_runs_where_all_that_it_needs_is_done() -> None:
    """Y and G are brought together by Z, behind the sums that G looks up."""
    x, u, at = tensor("X", 8, 16), tensor("U", 16, 5), tensor("at_16", 8, 16)
    r = w.reduce_axis((0, 5), name="r")
    y = w.compute((8, 16), lambda i, j: x[i, j] * x[i, 15 - j], name="Y")
    s = w.compute((16,), lambda i: w.sum(u[i, r], r), name="S")
    g = w.compute((8, 16), lambda i, j: s[at[i, j]] % 3, name="G")
    z = w.compute((8, 16), lambda i, j: y[i, j] + g[i, j], name="Z")
    f = w.compute((8, 16), lambda i, j: y[i, j] * g[i, j], name="F")
    of = lowered(z, f, inputs=(x, u, at))
    groups = groups_of(of)
    assert [g.names for g in groups] == [("S_add_init", "S_add"), ("Y", "G", "Z", "F")]
    now = initial(of)
    for group in groups:
        now = share(now, _loops(now, group), group.names)
    check(of, order(now).tree)


def running_sum(rows: int = 32, columns: int = 16) -> Scop:
    """S[t, i] = S[t - 1, i] + X[t, i]."""
    x = tensor("X", rows, columns)

    def value(itself: object, t: Expr, i: Expr) -> tuple[Expr]:
        return (select(t > 0, itself(0, t - 1, i), 0) + x[t, i],)  # type: ignore[operator]

    (s,) = w.scan((rows, columns), value, dtypes_=(dtypes.int64,), name="S")
    return lowered(s, inputs=(x,))


def test_a_recurrence_is_not_shared() -> None:
    of = running_sum()
    (s,) = of.statements
    assert recurrent_dims(s) == {s.dims[0]}
    assert shape_of(of) == [((s.name,), [{s.name: s.dims[1]}])]


def test_a_scatter_is_recurrent_in_all_dims() -> None:
    base, at = tensor("B", 9), tensor("at_9", 5)
    y = w.scatter(base, (5,), lambda i: ((at[i],), at[i] * 2), name="Y")
    of = lowered(y, inputs=(base, at))
    scattering = of.statements[-1]
    assert recurrent_dims(scattering) == set(scattering.dims)


def test_dims_of_other_bounds_are_not_shared() -> None:
    """Y reads the first half of T."""
    x = tensor("X", 64, 8)
    t = w.compute((64, 8), lambda i, j: x[i, j] * 2, name="T")
    y = w.compute((32, 8), lambda i, j: t[i, j] + t[i, 7 - j], name="Y")
    assert len(groups_of(lowered(y, inputs=(x,)))) == 2


def test_folds() -> None:
    of = matmul()
    assert [[s.name for s in fold] for fold in folds(of.statements)] == [
        ["C_add_init", "C_add"], ["D"],
    ]  # fmt: skip


def test_aligned() -> None:
    of = stencil()
    t, y = of.statements
    assert aligned(t.writes[0], t, y.reads[0], y) == {"i": "i"}
    assert aligned(t.writes[0], t, y.reads[1], y) == {}


def test_random_programs() -> None:
    """Every statement is in one group; what groups share can be fused legally, in their order."""
    fused_groups = 0
    for of, _ in random_scops(40, seed=1500):
        groups = groups_of(of)
        names = [n for g in groups for n in g.names]
        assert sorted(names) == sorted(s.name for s in of.statements)
        now = initial(of)
        for group in groups:
            if group.shared and len(group.names) > 1 and group.level == 0:
                fused_groups += 1
                now = share(now, _loops(now, group), group.names)
        check(of, order(now).tree)
    assert fused_groups > 15


def _loops(now: object, group: Group) -> dict[str, dict[str, str]]:
    tree = now.tree  # type: ignore[attr-defined]
    found = {}
    for k, shared in enumerate(group.shared):
        replaces = {}
        for s, dim in shared.dims.items():
            above = loops_above(tree, s)
            replaces[s] = next(x.name for x in above if x.at[s] == w.var(dim))
        found[f"{group.names[0]}_{k}"] = replaces
    return found


def test_it_is_deterministic() -> None:
    of = softmax()
    assert [g.names for g in groups_of(of)] == [g.names for g in groups_of(of)]
