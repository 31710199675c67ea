from __future__ import annotations

from dataclasses import fields, replace

import pytest

from weft.codegen.architectures import X86_64
from weft.codegen.llvm.cpus import cpu_names
from weft.codegen.llvm.target import lacking
from weft.codegen.machines.host import cpu_count, host
from weft.codegen.machines.named import RECORDS, target_named, target_recorded
from weft.codegen.target import RATES, Cpu, machine_of
from weft.ir.errors import CompileError
from weft.ir.machine import TYPICAL, Cache, Machine


@pytest.mark.parametrize(
    ("name", "file", "instructions"),
    [
        ("x86-64", (16, 16), set()),
        ("x86-64-v3", (32, 16), {"fma"}),
        ("x86-64-v4", (64, 32), {"fma"}),
        ("znver5", (64, 32), {"fma", "avx512vnni", "avx512bf16"}),
        ("knl", (32, 16), {"fma"}),  # AVX-512 without what kernels need of it
        ("aarch64", (16, 32), {"dotprod"}),
        ("cortex-a53", (16, 32), set()),
        ("neoverse-v2", (16, 32), {"dotprod", "i8mm", "bf16"}),
    ],
)
def test_registers_and_instructions(name: str, file: tuple[int, int], instructions: set) -> None:
    target = target_named(name)
    machine = target.machine
    assert (machine.vector_bytes, machine.vector_registers) == file
    assert target.llvm.vector_bytes == file[0]
    assert set(machine.features) >= instructions
    assert bool(instructions) == bool(machine.features)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_records_are_sound(record) -> None:
    target = target_named(record.name)
    sizes = [cache.size for cache in target.machine.caches]
    assert target.name == target.machine.name == record.name
    assert sizes == sorted(sizes) and len(set(sizes)) == len(sizes) >= 2
    assert target.llvm.cpu == record.llvm and target.cores >= 1
    assert target.llvm.triple.startswith(record.architecture.name)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("haswell", "x86-64-v3"),
        ("skylake", "x86-64-v3"),
        ("znver2", "znver3"),
        ("cascadelake", "skylake-avx512"),
        ("graniterapids", "sapphirerapids"),
        ("nehalem", "x86-64"),
        ("cortex-a53", "aarch64"),  # the nearest there is
    ],
)
def test_what_only_llvm_knows_has_the_caches_of_the_nearest_record(name: str, like: str) -> None:
    found, nearest = target_named(name), target_named(like)
    assert found.machine.caches == nearest.machine.caches
    assert found.llvm.cpu == found.machine.name == name


def test_names_that_llvm_knows_resolve_or_say_why() -> None:
    resolved = 0
    for name in cpu_names(X86_64)[::7]:
        try:
            resolved += target_named(name).machine.vector_bytes in (16, 32, 64)
        except CompileError as error:
            assert error.code == "WEFT-E0002" and "32 bits" in error.why
    assert resolved > 10


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("znver55", "znver5"), ("skylake_avx51", "skylake_avx512"), ("neverse-n1", "neoverse-n1")],
)
def test_unknown_names_suggest_others(name: str, suggestion: str) -> None:
    with pytest.raises(CompileError, match=f"WEFT-E0002: there is no target '{name}'") as caught:
        target_named(name)
    assert f"did you mean {suggestion}" in caught.value.hint
    assert "targets: host, x86-64, " in caught.value.hint


@pytest.mark.parametrize("name", ["", "generic", "help", "x" * 100_000, 'a"\n}', "i486"])
def test_hostile_names(name: str) -> None:
    with pytest.raises(CompileError, match="WEFT-E0002") as caught:
        target_named(name)
    assert len(str(caught.value)) < 600


def test_the_host() -> None:
    found = host()
    assert not lacking(found.llvm) and found.cores == cpu_count()
    assert found.machine.vector_bytes == found.llvm.vector_bytes


def test_short_vectors_have_the_registers_of_their_kind() -> None:
    if not host().llvm.triple.startswith("x86_64"):
        pytest.skip("elsewhere all vectors are alike")
    short = replace(host().llvm, vector_bytes=16)
    assert machine_of(short).vector_registers == 16


@pytest.mark.parametrize(
    ("name", "like"),
    [("cascadelake", "skylake-avx512"), ("haswell", "x86-64-v3"), ("znver2", "znver3"),
     ("znver3", "znver3"), ("znver4", "znver4"), ("cortex-a710", "neoverse-v2")],
)  # fmt: skip
def test_rates_of_a_record_are_its_own(name: str, like: str) -> None:
    """A neighbour's clock and pipelines say nothing of a processor; its caches are a guess."""
    found, nearest = target_named(name).machine, target_named(like).machine
    typical = Machine("", 16, 16, TYPICAL.caches)
    rates = {rate: getattr(found, rate) for rate in RATES}
    assert [c.size for c in found.caches] == [c.size for c in nearest.caches]
    if name == like:
        assert rates != {rate: getattr(typical, rate) for rate in RATES}
    else:
        assert rates == {rate: getattr(typical, rate) for rate in RATES}


def test_rates_are_what_a_machine_has_numbers_for() -> None:
    machine = Machine("", 16, 16, TYPICAL.caches)
    numbers = {f.name for f in fields(Machine) if type(getattr(machine, f.name)) in (int, float)}
    assert set(RATES) == numbers - {"vector_bytes", "vector_registers"}
    assert all(type(getattr(machine, rate)) is kind for rate, kind in RATES.items())


GOOD = {"name": "mine", "architecture": X86_64, "llvm": "x86-64-v3"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"rates": {"frequenzy": 3e9}}, "there is no rate 'frequenzy'"),
        ({"rates": {"vector_bytes": 64}}, "there is no rate 'vector_bytes'"),
        ({"rates": {"frequency": "3 GHz"}}, "frequency is '3 GHz'"),
        ({"rates": {"frequency": 0}}, "frequency is 0, not a positive number"),
        ({"rates": {"frequency": float("nan")}}, "frequency is nan"),
        ({"rates": {"barrier": float("inf")}}, "barrier is inf"),
        ({"rates": {"memory_bandwidth": -1.0}}, "memory_bandwidth is -1.0"),
        ({"rates": {"fma_per_cycle": 0}}, "fma_per_cycle is 0, not a whole number"),
        ({"rates": {"fma_latency": 4.5}}, "fma_latency is 4.5, not a whole number"),
        ({"rates": {"loads_per_cycle": True}}, "loads_per_cycle is True"),
        ({"rates": [("frequency", 3e9)]}, "rates is a list"),
        ({"caches": ()}, "caches is ()"),
        ({"caches": [Cache(32768)]}, "not a tuple of Cache"),
        ({"caches": (Cache(1 << 20), Cache(32768))}, "not the smallest first"),
        ({"caches": (Cache(0),)}, "cache 1 is"),
        ({"caches": (Cache(32768, bandwidth=0.0),)}, "cache 1 is"),
        ({"cores": 0}, "cores is 0"),
        ({"name": ""}, "name is ''"),
        ({"llvm": None}, "llvm is None"),
        ({"more": "avx512f"}, "more is 'avx512f'"),
        ({"architecture": "x86-64"}, "architecture is 'x86-64', not weft.X86_64 or weft.AARCH64"),
    ],
)
def test_what_is_no_record_is_refused(change: dict, why: str) -> None:
    with pytest.raises(CompileError, match="WEFT-E0023") as caught:
        Cpu(**{**GOOD, **change})
    assert why in str(caught.value)


def test_records_of_what_llvm_does_not_know() -> None:
    with pytest.raises(CompileError, match=r"(?s)WEFT-E0023.*'haswel'.*did you mean haswell"):
        target_recorded(Cpu(**{**GOOD, "llvm": "haswel"}))
    with pytest.raises(CompileError) as caught:
        target_recorded(Cpu(**{**GOOD, "llvm": "x86-64-v33"}))
    assert caught.value.hint.count("x86-64-v3") == 1  # LLVM's name and the record's
    with pytest.raises(CompileError, match=r"(?s)WEFT-E0023.*i386 has 32 bits"):
        target_recorded(Cpu(**{**GOOD, "llvm": "i386"}))
    for record in RECORDS:
        assert target_recorded(record) == target_named(record.name)
