"""Packing by name: panels of an operand."""

from __future__ import annotations

from tests.polyhedral.transform.integer_programs import every, read
from tests.polyhedral.transform.machine_code import computes
from weft.polyhedral.transform.cache_read import cache_read
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.pack import pack
from weft.polyhedral.transform.reorder import reorder
from weft.polyhedral.transform.scheduled import loops_above
from weft.polyhedral.transform.set_kinds import vectorize
from weft.polyhedral.transform.tile import tile


def test_both_operands() -> None:
    """The five loops of BLIS, with panels of 2 rows and of 4 columns."""
    scop = read(
        """
        for i in range(M):
            for j in range(N):
                for k in range(K):
                    C[i, j] += A[i, k] * B[k, j]
        """, "M N K", A="in M K", B="in K N", C="io M N",
    )  # fmt: skip
    now = tile(initial(scop), {"i": 4, "j": 8, "k": 3})
    now = reorder(now, ["j_t", "k_t", "i_t"])
    now = tile(now, {"j_p": 4, "i_p": 2})
    now = pack(now, "B", "S0", "k_t", {1: 4}, order=[1, 0])
    now = pack(now, "A", "S0", "i_t", {0: 2})
    assert str(now.steps[-2]) == 'pack("B", "S0", "k_t", {1: 4}, order=[1, 0])'
    assert now.scop.tensor("B_packed").scope == "local"
    computes(now, *every(scop, (0, 1, 5, 9)))


def test_is_a_cache_read() -> None:
    scop = read("for i in range(N):\n B[i] = A[i]", A="in N", B="io N")
    now = tile(initial(scop), {"i": 4})
    packed = pack(now, "A", "S0", "i_t", {0: 2}, pad=False, name="P")
    assert packed.scop == cache_read(now, "A", "S0", "i_t", panels={0: 2}, name="P").scop


def test_a_copy_in_vectors() -> None:
    scop = read("for i in range(N):\n B[i] = A[i]", A="in N", B="io N")
    now = tile(initial(scop), {"i": 4})
    plain = pack(now, "A", "S0", "i_t", {0: 2}, pad=False)
    last = loops_above(plain.tree, plain.scop.statements[-1].name)[-1].name
    made = pack(now, "A", "S0", "i_t", {0: 2}, pad=False, vector=True)
    assert made.tree == vectorize(plain, last).tree
    computes(made, *every(scop, (0, 1, 5, 9)))
