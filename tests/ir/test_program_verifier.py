from dataclasses import replace

import pytest

from tests.codegen.program_examples import chain, formal
from weft.ir.dtypes import float32, int32
from weft.ir.errors import InternalError
from weft.ir.loop_ir import Block, Kernel
from weft.ir.program import Aligned, Arena, Buffer, Input, Launch, Program
from weft.ir.program_verifier import verify_program
from weft.ir.scalar_expr import literal

SIXTEEN = chain(literal(16))


def refused(program: Program, code: str, *words: str, samples=None) -> None:
    with pytest.raises(InternalError) as caught:
        verify_program(program, samples)
    assert caught.value.code == f"WEFT-{code}"
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("size", [0, 1, 7, 16])
def test_well_formed_programs_pass(size: int) -> None:
    verify_program(chain(literal(size)))
    verify_program(chain(), [{"n": size}])


def test_duplicate_names() -> None:
    refused(replace(SIXTEEN, buffers=SIXTEEN.buffers * 2), "E0550", "two buffers")
    refused(replace(SIXTEEN, kernels=SIXTEEN.kernels * 2), "E0550", "two kernels")


def test_input_at_the_wrong_place() -> None:
    moved = replace(SIXTEEN.inputs[0], place=Input(3))
    refused(replace(SIXTEEN, inputs=(moved,)), "E0551", "buffer x")


def test_output_never_written() -> None:
    refused(replace(SIXTEEN, steps=SIXTEEN.steps[:1]), "E0551", "no step writes output y")


def test_unknown_kernel_and_wrong_arguments() -> None:
    for step, word in [
        (Launch("nothing", ()), "no kernel nothing"),
        (Launch("double", ("t",)), "takes 2 buffers, got 1"),
        (Launch("double", ("t", "z")), "no buffer z"),
        (Launch("double", ("t", "y"), (literal(3),)), "takes ()"),
        (Launch("double", ("t", "x")), "writes x, which is read-only"),
        (Launch("double", ("t", "bias")), "writes bias, which is read-only"),
    ]:
        refused(replace(SIXTEEN, steps=(*SIXTEEN.steps, step)), "E0552", word)


def test_dtype_and_shape_of_arguments() -> None:
    add, double = SIXTEEN.kernels
    for change in (
        {"dtype": int32},
        {"shape": (literal(17),), "strides": (literal(1),)},
        {"shape": (literal(4), literal(5)), "strides": (literal(5), literal(1))},
        {"strides": (literal(2),)},
    ):
        wrong = replace(double, buffers=(replace(double.buffers[0], **change), double.buffers[1]))
        refused(replace(SIXTEEN, kernels=(add, wrong)), "E0552", "does not fit")


def test_a_kernel_may_see_the_elements_in_another_shape() -> None:
    add, double = SIXTEEN.kernels
    four = literal(4)
    flat = replace(double.buffers[0], shape=(four, four), strides=(four, literal(1)))
    square = replace(double, buffers=(flat, double.buffers[1]))
    verify_program(replace(SIXTEEN, kernels=(add, square)))


def test_buffer_outside_the_arena() -> None:
    refused(replace(SIXTEEN, arena=literal(32)), "E0551", "buffer t is at 0..64 of an arena of 32")


def test_unaligned_offset() -> None:
    buffers = tuple(
        replace(b, place=Arena(literal(8))) if b.name == "t" else b for b in SIXTEEN.buffers
    )
    refused(replace(SIXTEEN, buffers=buffers, arena=literal(128)), "E0551", "buffer t")


def two_temporaries(offset: int, aliases: tuple[str, ...] = ()) -> Program:
    """t = x + bias; u = 2 * t; y = 2 * u, with u at ``offset`` (t is at 0, both 64 bytes)."""
    sixteen = literal(16)
    u = Buffer("u", float32, (sixteen,), Arena(literal(offset)))
    double = Kernel(
        "double",
        (),
        (formal("a", sixteen), formal("b", sixteen, writable=True, aliases=aliases)),
        Block(()),
    )
    return replace(
        SIXTEEN,
        buffers=(*SIXTEEN.buffers, u),
        arena=literal(256),
        kernels=(SIXTEEN.kernels[0], double),
        steps=(
            SIXTEEN.steps[0],
            Launch("double", ("t", "u")),
            Launch("double", ("u", "y")),
        ),
    )


def test_live_buffers_that_overlap() -> None:
    verify_program(two_temporaries(64))
    small = replace(two_temporaries(0), buffers=())
    longer = Buffer("u", float32, (literal(32),), Arena(literal(0)))
    kernels = (
        SIXTEEN.kernels[0],
        Kernel(
            "grow",
            (),
            (formal("a", literal(16)), formal("b", literal(32), writable=True)),
            Block(()),
        ),
    )
    program = replace(
        small,
        buffers=(*SIXTEEN.buffers, longer),
        kernels=(*SIXTEEN.kernels, kernels[1]),
        steps=(SIXTEEN.steps[0], Launch("grow", ("t", "u")), Launch("double", ("t", "y"))),
    )
    refused(program, "E0553", "overlap in the arena while both are alive", "step 1")


def test_sharing_within_one_launch_must_be_declared() -> None:
    refused(two_temporaries(0), "E0554", "share memory")
    verify_program(two_temporaries(0, aliases=("a",)))


def test_read_after_another_buffer_took_the_place() -> None:
    program = two_temporaries(0, aliases=("a",))
    again = (*program.steps[:2], Launch("double", ("t", "y")))
    refused(replace(program, steps=again), "E0553", "t is read after u took it")


def test_read_before_written() -> None:
    refused(replace(SIXTEEN, steps=SIXTEEN.steps[1:]), "E0553", "t is read before it is written")


def test_a_view_reads_what_the_other_name_wrote() -> None:
    view = Buffer("v", float32, (literal(4), literal(4)), Arena(literal(0)))
    flat = Kernel(
        "flat",
        (),
        (formal("a", literal(4), literal(4)), formal("b", literal(16), writable=True)),
        Block(()),
    )
    verify_program(
        replace(
            SIXTEEN,
            buffers=(*SIXTEEN.buffers, view),
            kernels=(*SIXTEEN.kernels, flat),
            steps=(SIXTEEN.steps[0], Launch("flat", ("v", "y"))),
        )
    )


def test_in_place_input_may_be_written() -> None:
    steps = (*SIXTEEN.steps[:1], Launch("double", ("t", "x")))
    program = replace(SIXTEEN, steps=steps, in_place=((0, 0),))
    verify_program(program)


def test_in_place_input_may_stay_as_it_is() -> None:
    verify_program(replace(SIXTEEN, steps=SIXTEEN.steps[:1], in_place=((0, 0),)))


def copied(index: int, offset: int, **changes: object) -> Program:
    """The chain on a copy of its input that begins at a line."""
    copy = Buffer("x/aligned", float32, (literal(16),), Aligned(index, literal(offset)))
    steps = (Launch("add", ("x/aligned", "bias", "t")), SIXTEEN.steps[1])
    buffers, arena = (*SIXTEEN.buffers, copy), literal(128)
    return replace(SIXTEEN, buffers=buffers, steps=steps, arena=arena, **changes)  # type: ignore[arg-type]


def test_inputs_that_begin_at_lines() -> None:
    verify_program(copied(0, 64))
    verify_program(replace(copied(0, 64), steps=SIXTEEN.steps))  # nothing has to read the copy
    refused(copied(1, 64), "E0551", "x/aligned")
    refused(copied(0, 96), "E0551", "x/aligned is at 96")
    refused(copied(0, 128), "E0551", "x/aligned is at 128")
    refused(copied(0, 0), "E0554", "share memory")
    refused(copied(0, 64, in_place=((0, 0),)), "E0551", "x/aligned")
    written = Launch("double", ("t", "x/aligned"))
    made = copied(0, 64)
    refused(replace(made, steps=(*made.steps, written)), "E0552", "read-only")


def test_unknown_size() -> None:
    refused(chain(), "E0551", "size n is not known", samples=[{}])


def test_linear_in_the_number_of_steps() -> None:
    """Two thousand launches that ping-pong between two places are verified at once."""
    sixteen = literal(16)
    temporaries = tuple(
        Buffer(f"t{i}", float32, (sixteen,), Arena(literal(64 * (i % 2)))) for i in range(2000)
    )
    steps = (
        Launch("add", ("x", "bias", "t0")),
        *(Launch("double", (f"t{i}", f"t{i + 1}")) for i in range(1999)),
        Launch("double", ("t1999", "y")),
    )
    verify_program(
        replace(SIXTEEN, buffers=(*SIXTEEN.buffers, *temporaries), arena=literal(128), steps=steps)
    )
