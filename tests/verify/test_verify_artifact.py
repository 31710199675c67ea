"""``weft check``: sound artifacts pass; what is broken, swapped or cut off is refused."""

# ruff: noqa: F821, B007

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto

import weft
from tests.weft.small_models import MODELS
from weft.app.cli import cli
from weft.driver.options import Options
from weft.frontend.zoo.model_builder import ModelBuilder
from weft.ir.errors import ArtifactError, CompileError, WeftError
from weft.ir.program import Constant
from weft.ir.scalar_expr import literal
from weft.ir.schedule_tree import Band, Loop, Mark, Tree, statements_below
from weft.polyhedral.transform.scheduled import rewrite
from weft.runtime import artifact
from weft.runtime.certificate import Certificate, Unit, UnitKernel, decode, digest, encode
from weft.runtime.compiled import Compiled
from weft.verify.verify_artifact import Checked, certificate_for, check_unit

OPTIONS = Options(cache=False, workers=0, threads=2)


@weft.kernel
def sweeps(A: weft.f64["N"], steps: int):
    for t in range(steps):
        for i in range(1, N - 1):
            A[i] = A[i - 1] + A[i] + A[i + 1]


@weft.kernel
def product(A: weft.f32[512, 512], B: weft.f32[512, 512], C: weft.f32[512, 512]):
    for i in range(512):
        for j in range(512):
            C[i, j] = 0.0
            for k in range(512):
                C[i, j] += A[i, k] * B[k, j]


@pytest.fixture(scope="module")
def kernel() -> Compiled:
    return sweeps.compile(options=OPTIONS).compiled


@pytest.fixture(scope="module")
def packed() -> Compiled:
    """A product whose operand is packed."""
    found = product.compile(options=OPTIONS).compiled
    unit = _only(found)
    assert len(unit.scheduled.tensors) > len(unit.original.tensors)
    return found


@pytest.fixture(scope="module")
def model() -> Compiled:
    """A model: convolutions with padding, weights that are packed when compiling."""
    executable = weft.compile(MODELS["conv_net"](), options=OPTIONS)
    assert isinstance(executable, weft.Executable)
    return executable.compiled


def _only(compiled: Compiled) -> Unit:
    (unit,) = decode(compiled.certificate, "memory").units
    return unit


def through_a_file(compiled: Compiled) -> Compiled:
    data = b"".join(bytes(piece) for piece in artifact.encode(compiled))
    return artifact.decode(memoryview(data), "memory")


def checked(compiled: Compiled) -> list[Checked]:
    certificate = certificate_for(through_a_file(compiled), "memory")
    return [check_unit(unit) for unit in certificate.units]


def changed(compiled: Compiled, change: Callable[[Certificate], Certificate]) -> Compiled:
    """``compiled`` with another certificate, which says that it is of ``compiled``."""
    certificate = decode(compiled.certificate, "memory")
    return replace(compiled, certificate=encode(change(certificate)))


def with_unit(compiled: Compiled, unit: Unit) -> Compiled:
    return changed(compiled, lambda found: replace(found, units=(unit,)))


def refusal(compiled: Compiled) -> WeftError | None:
    """Why ``compiled`` does not pass."""
    try:
        return next((unit.refusal for unit in checked(compiled) if unit.refusal), None)
    except ArtifactError as error:
        return error


# ---- sound ones ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kernel", "packed", "model"])
def test_what_was_compiled_passes(name: str, request: pytest.FixtureRequest) -> None:
    compiled = request.getfixturevalue(name)
    found = checked(compiled)
    assert found and not any(unit.refusal for unit in found)
    assert sum(unit.dependences for unit in found) > 0
    assert compiled.seconds["certificate"] >= 0


def test_kernels_without_instances_never_run() -> None:
    """A convolution over no channels adds nothing to its sums."""
    build = ModelBuilder("empty", np.random.default_rng(0))
    weight = build.constant("w", np.zeros((13, 0, 4, 3), np.float32))
    bias = build.weight("b", (13,), 1.0)
    turned = build.node("ReverseSequence", "x", "lengths", batch_axis=1, time_axis=0)
    summed = build.node("Conv", turned, weight, bias, strides=[2, 2], pads=[0, 0, 0, 0])
    other = build.node("HardSigmoid", turned)
    inputs = {"x": (TensorProto.FLOAT, (2, 0, 5, 3)), "lengths": (TensorProto.INT64, (0,))}
    outputs = {"y": (summed, (2, 13, 1, 1)), "z": (other, (2, 0, 5, 3))}
    executable = weft.compile(build.model(inputs, outputs), options=OPTIONS)
    assert isinstance(executable, weft.Executable)
    certificate = decode(executable.compiled.certificate, "memory")
    launched = {step.kernel for step in certificate.program.steps}
    made = {k.name: k.statements for unit in certificate.units for k in unit.kernels}
    assert any("sums_add" in " ".join(made[name]) for name in made.keys() - launched)
    assert not any(unit.refusal for unit in checked(executable.compiled))


def test_reading_gives_what_was_written(model: Compiled) -> None:
    certificate = decode(model.certificate, "memory")
    assert encode(certificate) == model.certificate
    launched = {step.kernel for step in certificate.program.steps}
    made = {kernel.name for unit in certificate.units for kernel in unit.kernels}
    assert launched < made  # the others, which pack weights, ran when compiling
    again = weft.compile(MODELS["conv_net"](), options=OPTIONS)
    assert isinstance(again, weft.Executable)
    assert again.compiled.certificate == model.certificate


def test_calls_do_not_read_it(kernel: Compiled, tmp_path: Path) -> None:
    broken = replace(kernel, certificate=b"no certificate")
    artifact.write(broken, tmp_path / "a.weft")
    A = np.arange(5.0)
    weft.load(tmp_path / "a.weft")(A, 1)
    assert list(A) == [0, 3, 8, 15, 4]


# ---- schedules that are wrong -------------------------------------------------------------------


def _loops(tree: Tree, change: Callable[[Loop], Loop]) -> Tree:
    def node(found: Tree) -> Tree | None:
        match found:
            case Band(loops, child):
                return Band(tuple(map(change, loops)), child)
        return None

    return rewrite(tree, node)


def test_a_loop_that_claims_to_be_parallel_is_refused(kernel: Compiled) -> None:
    unit = _only(kernel)
    tree = _loops(unit.tree, lambda loop: replace(loop, kind="parallel"))
    error = refusal(with_unit(kernel, replace(unit, tree=tree)))
    assert isinstance(error, CompileError) and error.code in ("WEFT-E0420", "WEFT-E0421")
    assert " before " in error.why  # two instances in conflict


def test_loops_that_run_backwards_are_refused(kernel: Compiled) -> None:
    unit = _only(kernel)

    def backwards(loop: Loop) -> Loop:
        return replace(loop, at={s: literal(0) - value for s, value in loop.at.items()})

    error = refusal(with_unit(kernel, replace(unit, tree=_loops(unit.tree, backwards))))
    assert error is not None and error.code == "WEFT-E0420"


def test_a_register_tile_that_is_too_small_is_refused(packed: Compiled) -> None:
    unit = _only(packed)

    def node(found: Tree) -> Tree | None:
        match found:
            case Mark(payload, child):
                return Mark(replace(payload, lanes=payload.lanes - 1), child)  # type: ignore[type-var]
        return None

    error = refusal(with_unit(packed, replace(unit, tree=rewrite(unit.tree, node))))
    assert error is not None and error.code == "WEFT-E0424"


def test_statements_that_read_elsewhere_are_refused(packed: Compiled) -> None:
    """Each statement that was changed, reading its neighbour: bounds or validation says so."""
    unit = _only(packed)
    known = {s.name for s in unit.original.statements}
    added = [s for s in unit.scheduled.statements if s.name not in known and s.reads]
    assert added
    for s in added:
        read = replace(s.reads[0], indices=tuple(i + 1 for i in s.reads[0].indices))
        bent = replace(s, reads=(read, *s.reads[1:]))
        statements = tuple(bent if t is s else t for t in unit.scheduled.statements)
        scop = replace(unit.scheduled, statements=statements)
        error = refusal(with_unit(packed, replace(unit, scheduled=scop)))
        assert error is not None and error.code in ("WEFT-E0430", "WEFT-E0440")


# ---- certificates of something else -------------------------------------------------------------


def test_certificates_do_not_change_places(kernel: Compiled, packed: Compiled) -> None:
    for one, other in ((kernel, packed), (packed, kernel)):
        error = refusal(replace(one, certificate=other.certificate))
        assert error is not None and error.code == "WEFT-E0709"
        # nor do all its units, whatever it says of itself
        units = decode(other.certificate, "memory").units
        error = refusal(changed(one, lambda found, units=units: replace(found, units=units)))
        assert isinstance(error, ArtifactError)
        program = decode(other.certificate, "memory").program
        error = refusal(changed(one, lambda c, u=units, p=program: replace(c, units=u, program=p)))
        assert error is not None and error.code == "WEFT-E0709"


def test_other_code_is_another_program(kernel: Compiled) -> None:
    objects = (bytes(kernel.objects[0]) + b"\0", *kernel.objects[1:])
    error = refusal(replace(kernel, objects=objects))
    assert error is not None and error.code == "WEFT-E0709"


def test_sizes_that_a_proof_assumes_are_checked_by_calls(kernel: Compiled) -> None:
    bare = replace(kernel, guards=())
    error = refusal(changed(bare, lambda found: replace(found, interface=digest(bare))))
    assert error is not None and error.code == "WEFT-E0709"
    assert "which calls do not check" in error.why


def _program_faults(found: Certificate) -> Iterator[tuple[str, Certificate]]:
    program, units = found.program, found.units
    yield "a step less", replace(found, program=replace(program, steps=program.steps[:-1]))
    turned = replace(program, steps=program.steps[::-1])
    yield "steps backwards", replace(found, program=turned)
    first = program.kernels[0]
    for what, buffer in (
        ("another dtype", replace(first.buffers[0], dtype=weft.int8)),
        ("another size", replace(first.buffers[0], shape=(literal(3),), strides=(literal(1),))),
        ("writable", replace(first.buffers[0], writable=not first.buffers[0].writable)),
        ("another name", replace(first.buffers[0], name="elsewhere")),
    ):
        kernel = replace(first, buffers=(buffer, *first.buffers[1:]))
        kernels = (kernel, *program.kernels[1:])
        yield what, replace(found, program=replace(program, kernels=kernels))
    owners = {made.name: unit.original.name for unit in units for made in unit.kernels}
    names = [owners[step.kernel] for step in program.steps]
    several = [k for k in range(1, len(names)) if names[k - 1] == names[k]]
    assert several
    for k in several:  # the kernel behind another one of its unit
        steps = (*program.steps[:k], *program.steps[k + 1 :])
        yield f"without step {k}", replace(found, program=replace(program, steps=steps))
    yield "units lost", replace(found, units=units[1:])
    yield "a unit twice", replace(found, units=(*units, units[0]))
    for number, unit in enumerate(units):
        if len(unit.kernels) > 1:
            kernels_of = (*unit.kernels[1:], unit.kernels[0])
            others = (*units[:number], replace(unit, kernels=kernels_of), *units[number + 1 :])
            yield "kernels in another order", replace(found, units=others)
            one = UnitKernel("all", statements_below(unit.tree))
            others = (*units[:number], replace(unit, kernels=(one,)), *units[number + 1 :])
            yield "one kernel", replace(found, units=others)
    arena = [b for b in program.buffers if not isinstance(b.place, Constant)]
    moved = tuple(
        replace(b, place=arena[0].place) if b is arena[-1] else b for b in program.buffers
    )
    yield "two buffers in one place", replace(found, program=replace(program, buffers=moved))


def test_host_programs_that_are_not_of_the_units_are_refused(model: Compiled) -> None:
    certificate = decode(model.certificate, "memory")
    for what, wrong in _program_faults(certificate):
        error = refusal(changed(model, lambda _, wrong=wrong: wrong))
        assert isinstance(error, ArtifactError), what
        assert error.code in ("WEFT-E0708", "WEFT-E0709"), what


# ---- damage -------------------------------------------------------------------------------------


def test_no_certificate(kernel: Compiled) -> None:
    error = refusal(replace(kernel, certificate=b""))
    assert error is not None and error.code == "WEFT-E0707"


def test_a_certificate_that_is_cut_off_is_malformed(kernel: Compiled) -> None:
    whole = kernel.certificate
    for length in range(1, len(whole)):
        error = refusal(replace(kernel, certificate=whole[:length]))
        assert error is not None and error.code == "WEFT-E0708", length


def test_a_certificate_that_unpacks_to_too_much_is_malformed(kernel: Compiled) -> None:
    bomb = (1 << 31).to_bytes(4, "little") + kernel.certificate[4:]
    error = refusal(replace(kernel, certificate=bomb))
    assert error is not None and error.code == "WEFT-E0708"


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.data())
def test_garbled_certificates_end_in_an_error_or_a_proof(data: st.DataObject) -> None:
    """Bytes of the unpacked certificate replaced at random: never a crash, nor anything accepted
    that is no schedule of what it says."""
    compiled = _small()
    unpacked = bytearray(zlib.decompress(compiled.certificate[4:]))
    for _ in range(data.draw(st.integers(1, 3))):
        unpacked[data.draw(st.integers(0, len(unpacked) - 1))] = data.draw(st.integers(0, 255))
    packed = len(unpacked).to_bytes(4, "little") + zlib.compress(bytes(unpacked), 1)
    refusal(replace(compiled, certificate=packed))


@cache
def _small() -> Compiled:
    return sweeps.compile(options=OPTIONS).compiled


# ---- the command --------------------------------------------------------------------------------


def command(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["check", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_command_says_what_is_proved(kernel: Compiled, tmp_path: Path) -> None:
    path = tmp_path / "sweeps.weft"
    artifact.write(kernel, path, texts=False)
    result = command(path)
    first, last = result.stdout.splitlines()
    assert result.exit_code == 0
    assert first.startswith("sweeps: proved; 1 statements, 7 dependences, ")
    assert last == f"{path}: 1 of 1 units proved"
    found = json.loads(command(path, "--json").stdout)
    [unit] = found["units"]
    assert found["proved"] and unit["proved"] and unit["error"] is None
    assert (unit["name"], unit["statements"], unit["dependences"]) == ("sweeps", 1, 7)


def test_the_command_shows_two_instances_in_conflict(kernel: Compiled, tmp_path: Path) -> None:
    unit = _only(kernel)
    tree = _loops(unit.tree, lambda loop: replace(loop, kind="parallel"))
    path = tmp_path / "sweeps.weft"
    artifact.write(with_unit(kernel, replace(unit, tree=tree)), path)
    result = command(path)
    assert result.exit_code == 1
    assert result.stdout.startswith("sweeps: refused\nWEFT-E042")
    assert " before " in result.stdout and "0 of 1 units proved" in result.stdout
    found = json.loads(command(path, "--json").stdout)
    assert not found["proved"] and " before " in found["units"][0]["error"]["why"]


def test_the_command_without_a_certificate(kernel: Compiled, tmp_path: Path) -> None:
    artifact.write(kernel, tmp_path / "a.weft", certificate=False)
    result = command(tmp_path / "a.weft")
    assert result.exit_code == 2 and "WEFT-E0707" in result.stderr
    result = command(tmp_path / "b.weft", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == "WEFT-E0700"
