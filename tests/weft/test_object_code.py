"""Object code made ahead: the same bytes as at once, each module once, failures told."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.codegen.program_examples import chain
from tests.weft.small_models import conv_net, seeded_inputs
from weft import object_code
from weft.codegen.llvm_kernel import emit_kernel
from weft.codegen.llvm_target import host_target, to_object
from weft.errors import InternalError
from weft.object_code import ObjectCode
from weft.options import Options

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


def test_programs_are_the_same_with_and_without_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_code, "WORTH", 0)
    model = conv_net()
    one, other = (weft.compile(model, options=Options(workers=k, cache=False)) for k in (0, 2))
    assert isinstance(one, weft.Executable) and isinstance(other, weft.Executable)
    assert one.compiled.objects == other.compiled.objects
    assert one.explain() == other.explain()
    inputs = seeded_inputs(model, 1)
    np.testing.assert_array_equal(one.run(inputs)["output"], other.run(inputs)["output"])
