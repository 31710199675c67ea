"""Trial of an instruction: its emission runs on random operands and is compared with its semantics.

``trial_module`` is a function ``void weft_trial(ptr acc, ptr a, …)`` that issues the instruction
once; ``Trial`` has operands for it and the expected result. Emissions are foreign code that may
crash, so ``run_trial`` is a job for a process of its own (``weft/driver/targets.py``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from weft.codegen.llvm.builder import Builder, Value, register_type
from weft.codegen.llvm.frame import Frame
from weft.codegen.llvm.instruction import call, element_type, lanes_of
from weft.codegen.llvm.scalar import ScalarOps
from weft.codegen.llvm.target import LlvmTarget, to_object
from weft.codegen.llvm.tiles import one_issue
from weft.codegen.objects.native_library import link
from weft.ir.dtypes import DType
from weft.ir.errors import CompileError
from weft.ir.instruction import ACCUMULATOR, Instruction, Tiles
from weft.ir.scalar_expr import Load, Var, walk
from weft.ir.scalar_interpreter import evaluate

ENTRY = "weft_trial"
ROUNDS = 8
Array = np.ndarray[Any, Any]


def trial_module(instruction: Instruction, target: LlvmTarget) -> str:
    """LLVM IR of one issue, its operands in memory as the emission takes them."""
    b = Builder()
    frame = Frame(b, ScalarOps(b), target, Value("null", "ptr"), Value("null", "ptr"))
    dtypes_ = operand_types(instruction)
    if instruction.unit is not None:
        one_issue(frame, instruction.unit, [Value(f"%p_{name}", "ptr") for name in dtypes_])
    else:
        _on_vectors(frame, instruction, dtypes_)
    b.line("ret void")
    parameters = ", ".join(f"ptr %p_{name}" for name in dtypes_)
    body = b.finish(f"void @{ENTRY}({parameters})")
    head = [f'target triple = "{target.triple}"', *b.declarations]
    return "\n".join([*head, "", *b.support.values(), body])


def _on_vectors(frame: Frame, instruction: Instruction, dtypes_: Mapping[str, DType]) -> None:
    b, lanes = frame.b, lanes_of(instruction)
    values = {}
    for name, dtype in dtypes_.items():
        count = lanes if name == ACCUMULATOR else lanes * instruction.depth
        type_ = register_type(dtype) if name == ACCUMULATOR else element_type(dtype)
        values[name] = b.load(Value(f"%p_{name}", "ptr"), type_, count, 1)
    old = values.pop(ACCUMULATOR)
    new = call(frame, instruction, {**values, ACCUMULATOR: old})
    b.store(new, Value(f"%p_{ACCUMULATOR}", "ptr"), 1)


def operand_types(instruction: Instruction) -> dict[str, DType]:
    """The accumulator's dtype, then those of the operands, by name."""
    found = {n.source: n.dtype for n in walk(instruction.value) if isinstance(n, Load)}
    names = enumerate(instruction.tensors)
    return {ACCUMULATOR: instruction.dtype, **{name: found[k] for k, name in names if k in found}}


@dataclass(frozen=True, slots=True)
class Trial:
    """Operands as arrays over (results, steps) or, of the accumulator, over results alone."""

    instruction: Instruction
    operands: dict[str, Array]

    def given(self) -> list[bytes]:
        """The operands in the layout of the emission, the accumulator first."""
        if self.instruction.unit is not None:
            return self._in_tiles(self.instruction.unit)
        offset = self.instruction.offset
        found = []
        for name, value in self.operands.items():
            flipped = offset is not None and offset.tensor == name
            raw = (
                value.view(f"u{value.itemsize}") ^ (1 << (8 * value.itemsize - 1))
                if flipped
                else value
            )
            found.append(raw.tobytes())
        return found

    def _in_tiles(self, unit: Tiles) -> list[bytes]:
        """The sums, the row operand by rows, and the lane operand as rows of words."""
        own = self.instruction
        shape = (own.rows, -1, own.depth)
        a, b = (self.operands[name].reshape(shape) for name in own.tensors)
        words = b[0].reshape(-1, own.depth // unit.word, unit.word).swapaxes(0, 1)
        return [x.tobytes() for x in (self.operands[ACCUMULATOR], a[:, 0], words)]

    def expected(self) -> Array:
        """The result by the semantics, exactly or in float64."""
        own = self.instruction
        update = own.semantics.update
        assert update is not None, "an instruction accumulates"

        def load(source: object, _: tuple[Array, ...]) -> Array:
            assert isinstance(source, int)
            return self.operands[own.tensors[source]]

        precise = own.dtype.is_float
        total = self.operands[ACCUMULATOR].astype(np.float64 if precise else own.dtype.numpy)
        terms = np.broadcast_to(
            evaluate(own.issued, {}, load, precise=precise), (len(total), own.depth)
        )
        for step in range(own.depth):
            pairs = (
                (update.monoid.left[0].name, total),
                (update.monoid.right[0].name, terms[:, step]),
            )
            total = evaluate(update.monoid.combined[0], dict(pairs), precise=precise)
        return total

    def differs(self, result: Array) -> str:
        """Where ``result`` differs from the expected one, or ''. Floats may differ by the rounding
        error of a sum of as many terms."""
        expected = self.expected()
        if self.instruction.dtype.is_float:
            unit = float(np.finfo(self.instruction.dtype.compute.numpy).eps)
            scale = np.abs(self.operands[ACCUMULATOR].astype(np.float64)) + sum(
                np.abs(v.astype(np.float64)).max() ** 2
                for n, v in self.operands.items()
                if n != ACCUMULATOR
            )
            wrong = ~(np.abs(result - expected) <= 4 * (self.instruction.depth + 1) * unit * scale)
        else:
            wrong = result != expected
        if not wrong.any():
            return ""
        at = int(np.flatnonzero(wrong)[0])
        return f"result {at} is {result[at]}, not {expected[at]}"


def trials(instruction: Instruction) -> list[Trial]:
    """Operands from a fixed seed, with the extremes of integers among them."""
    random = np.random.default_rng(0)
    lanes, depth = lanes_of(instruction), instruction.depth
    results = {d: n for d, n in instruction.extents.items() if d not in instruction.summed}
    moving = {
        read.tensor: {n.name for i in read.indices for n in walk(i) if isinstance(n, Var)}
        for read in instruction.semantics.reads
    }
    made = []
    for number in range(ROUNDS):
        operands = {}
        for name, dtype in operand_types(instruction).items():
            shape = (lanes,) if name == ACCUMULATOR else (lanes, depth)
            value = _random(random, dtype, shape, extreme=number == 0)
            if name != ACCUMULATOR:
                value = _repeated(value, results, moving[name])
            if name != ACCUMULATOR and not moving[name] & set(instruction.summed):
                value = np.repeat(value[:, :1], depth, axis=1)
            operands[name] = np.ascontiguousarray(value)
        made.append(Trial(instruction, operands))
    return made


def _repeated(value: Array, results: Mapping[str, int], moving: Set[str]) -> Array:
    """``value``, over results and steps, the same along each dim of ``results`` (how many there are
    of it) that is none of ``moving``."""
    apart = value.reshape(*results.values(), -1)
    for axis, (dim, count) in enumerate(results.items()):
        if dim not in moving:
            apart = np.repeat(apart.take([0], axis), count, axis)
    return apart.reshape(value.shape)


def _random(
    random: np.random.Generator, dtype: DType, shape: tuple[int, ...], *, extreme: bool
) -> Array:
    if dtype.is_float:
        return random.standard_normal(shape).astype(dtype.numpy)
    low, high = int(dtype.lowest), int(dtype.highest)
    if extreme:
        return random.choice(np.array([low, high], dtype.numpy), shape)
    return random.integers(low, high, shape, endpoint=True).astype(dtype.numpy)


# ---- the job of a compiler worker: a trial may end the process that runs it


def run_trial(payload: bytes) -> bytes:
    """LLVM IR of a function ``ENTRY``, a target and the operands of the function's calls, as
    ``trial_job`` packs them; to what the first operand of each call is afterwards.

    Without calls the function is only assembled: this processor need not know its code.
    """
    kind = tuple[str, LlvmTarget, list[list[bytes]]]
    text, target, calls = msgspec.msgpack.decode(payload, type=kind)
    code = to_object(text, target)
    return msgspec.msgpack.encode(_called(code, calls) if calls else [])


def _called(code: bytes, calls: Sequence[Sequence[bytes]]) -> list[bytes]:
    try:
        library = link([code], [ENTRY], {})
    except RuntimeError as error:  # such as an undefined function
        raise CompileError("WEFT-E0021", "its code cannot be linked", why=str(error)) from error
    results = []
    for operands in calls:
        memory = [ctypes.create_string_buffer(operand, len(operand)) for operand in operands]
        kinds = [ctypes.c_void_p] * len(memory)
        ctypes.CFUNCTYPE(None, *kinds)(library[ENTRY])(*map(ctypes.addressof, memory))
        results.append(memory[0].raw)
    return results


def trial_job(text: str, target: LlvmTarget, calls: Sequence[Sequence[bytes]]) -> bytes:
    """The payload of a "trial" job."""
    return msgspec.msgpack.encode((text, target, calls))
