"""The initial tree runs the instances in textual order."""

from __future__ import annotations

from tests.polyhedral.scops import at, box, scop, statement, tensor
from tests.polyhedral.transform.harness import i, j, matmul, promise, random_scops
from weft.ir.schedule_printer import print_schedule
from weft.ir.scop_interpreter import instances
from weft.polyhedral.transform.initial import initial


def test_statements_with_a_common_prefix_share_its_loops() -> None:
    of = scop(
        (tensor("A", 4), tensor("B", 4, 4)),
        statement("a", box(i=4), at("A", i), position=(0, "i", 0)),
        statement("b", box(i=4, j=4), at("B", i, j), position=(0, "i", 1, "j", 0)),
        statement("c", box(i=4), at("A", i), position=(1, "i", 0)),
    )
    assert print_schedule(initial(of).tree) == (
        "sequence\n"
        "  for i = i\n"
        "    sequence\n"
        "      a\n"
        "      for j = j\n"
        "        b\n"
        "  for i_2 = i\n"
        "    c\n"
    )


def test_one_statement_needs_no_sequence() -> None:
    of = scop((tensor("A", 4),), statement("a", box(i=4), at("A", i)))
    assert print_schedule(initial(of).tree) == "for i = i\n  a\n"


def test_loops_that_tiling_would_confuse_have_names_of_their_own() -> None:
    """Tiling ``i`` makes ``i_t`` and ``i_p``, whatever the program calls its own indices."""
    for dims in (("i", "i_t"), ("i_t", "i"), ("i_p", "i"), ("i", "i_p")):
        of = scop(
            (tensor("A", 4, 4),),
            statement("a", box(**dict.fromkeys(dims, 4)), at("A", 0, 0), dims=dims),
        )
        names = [loop.name for loop in initial(of).loops()]
        made = {f"{name}{suffix}" for name in names for suffix in ("", "_t", "_p")}
        assert len(made) == 6, names


def test_the_order_is_that_of_the_text() -> None:
    for of, sizes in random_scops(25, seed=400):
        values = {**sizes, **dict.fromkeys(set(of.parameters) - set(sizes), 4)}
        textual = [(s.name, point) for s, point in instances(of, values)]
        assert [(s.name, p) for s, p in instances(of, values, initial(of).tree)] == textual


def test_it_is_legal() -> None:
    promise(matmul(), initial(matmul()))
