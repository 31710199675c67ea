"""Correct scheduled programs in artifacts whose certificates are broken on purpose: refused."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import pytest

import weft.driver.object_code
from tests.properties.enumeration import TooLarge
from tests.properties.mutations import Values, _equivalent, _pair, _values, mutants
from tests.properties.random_schedules import Pair
from tests.properties.scheduled_programs import CASES, case
from weft.codegen.llvm.target import host_target
from weft.driver.assemble import Assembly, held, host_program, launches
from weft.driver.cluster_code import cluster_code
from weft.driver.compiler import machine_code
from weft.driver.lowered import Lowered, Source
from weft.driver.options import Options
from weft.driver.passes import Passes
from weft.driver.targets import target_for
from weft.ir.errors import WeftError
from weft.ir.plan import Plan
from weft.ir.program import Buffer, Input, Output
from weft.ir.schedule_tree import statements_below
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime import artifact
from weft.runtime.certificate import UnitKernel, decode, encode
from weft.runtime.compiled import Compiled
from weft.verify.verify_artifact import certificate_for, check_unit

EVERY = 7
OPTIONS = Options(cache=False, workers=0, threads=1)


@cache
def artifact_of(name: str) -> Compiled:
    """Case ``name`` compiled as it is scheduled, with LLVM IR for object code."""
    scheduled, passes = case(name).scheduled, Passes(OPTIONS, name)
    machine = target_for(OPTIONS).machine
    code = cluster_code(scheduled.original, "unit", machine, passes, scheduled)
    tensors = [t for t in scheduled.original.tensors if t.role not in ("temp", "constant")]
    inputs = tuple(t.name for t in tensors if t.role != "output")
    outputs = tuple(t.name for t in tensors if t.role == "output")
    places = {n: Input(k) for k, n in enumerate(inputs)}
    places |= {n: Output(k) for k, n in enumerate(outputs)}  # type: ignore[misc]
    storage = {t.name: held(t) for t in scheduled.scop.tensors if t.scope == "global"}
    main = host_program(
        "main", launches(code, {}), storage, {}, places, frozenset(), inputs, outputs
    )
    written = [t for t in tensors if t.role == "inout"]
    after = tuple(
        Buffer(f"{t.name}/after", t.dtype, t.shape, Output(len(outputs) + k))
        for k, t in enumerate(written)
    )
    in_place = tuple((len(outputs) + k, inputs.index(t.name)) for k, t in enumerate(written))
    main = replace(
        main, outputs=main.outputs + after, buffers=main.buffers + after, in_place=in_place
    )
    source = Source(name, inputs, (*outputs, *(t.name for t in written)))
    lowered = Lowered(source, (code,), Assembly(main), Plan(), machine, passes)
    with patch.object(weft.driver.object_code, "to_object", lambda text, target: text.encode()):
        return machine_code(lowered, host_target())


def with_mutant(base: Compiled, mutant: Scheduled) -> Compiled:
    """``base``, whose certificate says that it was compiled from ``mutant``."""
    certificate = decode(base.certificate, "memory")
    (unit,) = certificate.units
    order = statements_below(mutant.tree)
    kernels = tuple(
        UnitKernel(made.name, tuple(s for s in order if s in made.statements))
        for made in unit.kernels
    )
    changed = replace(unit, scheduled=mutant.scop, tree=mutant.tree, kernels=kernels)
    return replace(base, certificate=encode(replace(certificate, units=(changed,))))


def refusal(compiled: Compiled) -> WeftError | None:
    data = b"".join(bytes(piece) for piece in artifact.encode(compiled))
    try:
        certificate = certificate_for(artifact.decode(memoryview(data), "memory"), "memory")
    except WeftError as error:
        return error
    return next((unit.refusal for unit in map(check_unit, certificate.units) if unit.refusal), None)


def missed(pair: Pair, changed: Scheduled, expected: Values) -> bool:
    """Whether an accepted mutant is one that matters."""
    try:
        return not _equivalent(_pair(pair, changed), expected)
    except TooLarge:
        return False


@pytest.mark.parametrize("name", CASES)
@pytest.mark.long
def test_mutants_are_refused(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        base = artifact_of(name)
    assert refusal(base) is None
    pair = case(name)
    expected, proofs = _values(pair), 0
    for number, (kind, what, changed) in enumerate(mutants(pair.scheduled)):
        if number % EVERY == len(name) % EVERY:
            error = refusal(with_mutant(base, changed))
            if error is None:
                assert not missed(pair, changed, expected), (kind, what)
            else:
                proofs += error.code.startswith("WEFT-E04")  # not only that it hangs together
    assert proofs >= 3
