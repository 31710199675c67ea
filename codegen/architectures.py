"""Instruction sets as data: which of LLVM's features matter, and what vectors follow from them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vectors:
    """A register file: ``count`` registers of ``bytes``, on processors with all features of
    ``needs``."""

    bytes: int
    count: int
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Architecture:
    """A family of processors.

    ``features``: LLVM's names of those that generated code may use; code that uses one requires it
    at run time. ``instructions``: those of them that only instruction records use. ``vectors``:
    register files, the widest first; the last needs no feature. ``fma``, ``half``: the feature for
    fused multiply-add and float16 conversions ('': all have them). ``base`` and ``cleared``: LLVM's
    least processor, and features to remove from it so that it is a subset of all others.
    ``always``: features that LLVM is told for every processor, above all to disable those that
    processor names imply but run-time checks do not cover. ``needs``: the message for processors
    too old for the family.
    """

    name: str
    features: tuple[str, ...]
    instructions: frozenset[str]
    vectors: tuple[Vectors, ...]
    fma: str
    half: str
    base: str
    cleared: str = ""
    always: str = ""
    needs: str = ""

    def register_file(self, features: Set[str]) -> Vectors:
        """The widest vectors of a processor with ``features``."""
        return next(v for v in self.vectors if v.needs <= features)

    @property
    def triple(self) -> str:
        """Of the family's processors under Linux."""
        return f"{self.name}-unknown-linux-gnu"


_AVX512 = frozenset(("avx512f", "avx512vl", "avx512bw", "avx512dq"))

X86_64 = Architecture(
    "x86_64",
    (
        "cmov", "cx8", "sse", "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "f16c",
        "avx2", "fma", "bmi", "bmi2", "lzcnt", "movbe", "tbm",
        "adx", "gfni", "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl",
        "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq", "avx512vnni",
        "avx512bf16", "avx512fp16", "avxvnni", "avxvnniint8", "avxvnniint16", "avxifma",
        "avxneconvert", "avx10.1", "avx10.2", "amx-tile", "amx-int8", "amx-bf16", "amx-fp16",
        "egpr", "ndd", "ccmp", "nf", "cf", "zu", "ppx", "push2pop2",
    ),
    frozenset(("fma", "avx512vnni", "avx512bf16", "avx512fp16", "avxvnni", "avxvnniint8")),
    (Vectors(64, 32, _AVX512), Vectors(32, 16, frozenset(("avx2",))), Vectors(16, 16)),
    fma="fma",
    half="f16c",
    base="i386",
    # LLVM aborts when it compiles 64-bit code for an i386. Only AMD's processors have SSE4A, which
    # LLVM requires for XOP and FMA4.
    always="+64bit,-sse4a,-raoint,-cmpccxadd,-movrs",
    needs="cmov",
)  # fmt: skip

AARCH64 = Architecture(
    "aarch64",
    ("fp-armv8", "neon", "crc", "lse", "fullfp16", "dotprod", "i8mm", "bf16", "sve", "sve2"),
    frozenset(("fullfp16", "dotprod", "i8mm", "bf16")),
    (Vectors(16, 32),),
    fma="",
    half="",
    base="generic",
    needs="neon",
    always=(
        "-rcpc,-lse2,-complxnum,-jsconv,-fptoint,-flagm,-altnzcv,-sha3,-cssc,-mops,-hbc,-cmpbr,"
        "-faminmax,-fprcvt,-rdm"
    ),
    # Tuning and tracing of the "generic" processor that others lack.
    cleared="-ete,-trbe,-fuse-aes,-fuse-adrp-add,-use-postra-scheduler,-enable-select-opt",
)

ARCHITECTURES = (X86_64, AARCH64)


def architecture_of(triple: str) -> Architecture:
    """The family of ``triple``; for an unknown one, an architecture without features."""
    name = {"arm64": "aarch64", "amd64": "x86_64"}.get(triple.split("-")[0], triple.split("-")[0])
    unknown = Architecture(name, (), frozenset(), (Vectors(16, 32),), "", "", "generic")
    return next((a for a in ARCHITECTURES if a.name == name), unknown)
