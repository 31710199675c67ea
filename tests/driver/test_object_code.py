"""Object code made ahead: the same bytes as at once, each module once, failures told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.codegen.program_examples import chain
from tests.weft.small_models import conv_net, seeded_inputs
from weft.codegen.llvm.kernel import emit_kernel
from weft.codegen.llvm.target import host_target, to_object
from weft.driver import object_code
from weft.driver.object_code import ObjectCode
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.driver.program_code import program_code
from weft.ir.errors import InternalError
from weft.ir.program import Arena, Launch
from weft.ir.scalar_expr import literal
from weft.runtime.executable import Executable

IR = "define i64 @f(i64 %x) {{\n  %y = add i64 %x, {}\n  ret i64 %y\n}}\n"
KERNELS = chain().kernels
TEXTS = [IR.format(k) for k in (1, 2, 1, 3)]


@pytest.fixture(params=[0, 1, 3], ids="{} workers".format)
def options(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Options:
    """Options with so many workers, which are worth starting from the first module on."""
    monkeypatch.setattr(object_code, "WORTH", 0)
    return Options(workers=request.param, cache=False)


def test_kernels_and_other_modules_in_order(options: Options) -> None:
    target = host_target()
    with ObjectCode(target, options) as code:
        emitted = [code.emitted(kernel) for kernel in KERNELS]
        assert emitted == [emit_kernel(kernel, target) for kernel in KERNELS]
        assert [code.emitted(kernel) for kernel in KERNELS] == emitted
        for _ in range(2):
            texts = [*TEXTS, *(each.text for each in emitted)]
            assert code.objects(texts) == [to_object(text, target) for text in texts]
        assert code.objects([]) == []


def test_equal_modules_are_compiled_once(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    if options.workers == 0:
        seen: list[str] = []
        monkeypatch.setattr(
            object_code,
            "to_object",
            lambda text, target: seen.append(text) or to_object(text, target),
        )
    with ObjectCode(host_target(), options) as code:
        first, _, again, _ = code.objects(TEXTS)
    assert first == again
    if options.workers == 0:
        assert len(seen) == 3


def test_kernels_that_differ_in_their_names_share_code(options: Options) -> None:
    kernel = KERNELS[0]
    with ObjectCode(host_target(), options) as code:
        one, same, third = map(code.emitted, (kernel, replace(kernel, name="sum"), KERNELS[1]))
    assert one == same == emit_kernel(kernel, host_target())
    assert third.symbols.function == KERNELS[1].name


@pytest.mark.parametrize("sign", [1, -1])
def test_programs_whose_kernels_share_code_run(sign: int) -> None:
    """Each failure is told in the words of the kernel that failed."""
    program = chain(literal(5))
    add, double = program.kernels
    twice = replace(double, name="twice", messages=("twice is negative",))
    double = replace(double, messages=("negative",))
    first, second = program.steps
    middle = replace(program.buffers[-1], name="u", place=Arena(literal(64)))
    program = replace(
        program,
        buffers=(*program.buffers, middle),
        arena=literal(128),
        steps=(first, replace(second, arguments=("t", "u")), Launch("twice", ("u", "y"))),
        kernels=(add, double, twice),
    )
    options = Options(workers=0, cache=False)
    x, bias = np.arange(5, dtype=np.float32), np.full(5, sign, np.float32)
    with ObjectCode(host_target(), options) as code:
        compiled = program_code(program, {"bias": bias}, code, Passes(options))
    assert len(compiled.objects) == 3
    if sign < 0:
        with pytest.raises(weft.WeftError, match=r"^[^t]*negative"):
            Executable(compiled).run({"x": x})
    else:
        np.testing.assert_array_equal(Executable(compiled).run({"x": x})["y"], (x + bias) * 4)


def test_failures_are_raised_and_leave_nothing_behind(options: Options) -> None:
    for _ in range(2):
        with (
            pytest.raises(InternalError, match="LLVM refused"),
            ObjectCode(host_target(), options) as code,
        ):
            code.objects([*TEXTS, IR.format("nonsense"), IR.format(9)])


def test_leaving_before_the_objects_are_there(options: Options) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        ObjectCode(host_target(), options) as code,
    ):
        for kernel in KERNELS:
            code.emitted(kernel)
        raise ZeroDivisionError


def test_strict_code_rounds_after_each_operation() -> None:
    with ObjectCode(host_target(), Options(strict=True, workers=0)) as code:
        assert [code.emitted(k) for k in KERNELS] == [
            emit_kernel(k, host_target(), contract=False) for k in KERNELS
        ]


@pytest.mark.long
def test_programs_are_the_same_with_and_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_code, "WORTH", 0)
    model = conv_net()
    one, other = (weft.compile(model, options=Options(workers=k, cache=False)) for k in (0, 2))
    assert isinstance(one, weft.Executable) and isinstance(other, weft.Executable)
    assert one.compiled.objects == other.compiled.objects
    assert one.explain() == other.explain()
    inputs = seeded_inputs(model, 1)
    np.testing.assert_array_equal(one.run(inputs)["output"], other.run(inputs)["output"])
