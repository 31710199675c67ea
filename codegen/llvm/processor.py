"""A run-time check that the processor has the features that code was compiled for, as LLVM IR.

Otherwise the first unknown instruction would end the process. The check itself is compiled for
``plain``, the least processor of the family.

x86-64: ``cpuid``; ``xgetbv`` for the state that the system saves at context switches; a request for
the permission to tiles. AArch64: ``getauxval``. Features that cannot be queried, and all features
of other families, are assumed.

References: Intel, "Software Developer's Manual", 2A; Linux, "ELF hwcaps".
"""

from __future__ import annotations

from dataclasses import replace

from weft.codegen.amx_permission import ARCH_PRCTL, REQUEST, TILES
from weft.codegen.llvm.target import LlvmTarget, host_target

_Word = tuple[int, ...]  # cpuid: leaf, subleaf, register (eax, ebx, ecx, edx); or kind of getauxval
_Bit = tuple[_Word, int]

_BASIC, _MORE, _MORE_1, _EXTENDED = (1, 0), (7, 0), (7, 1), (0x80000001, 0)
_A, _B, _C, _D = range(4)
_BASIC_C, _HAS_XGETBV = (*_BASIC, _C), 27
_X86_64: dict[str, _Bit] = {
    feature: ((*leaf, register), bit)
    for leaf, register, features in (
        (_BASIC, _C, {
            "sse3": 0, "ssse3": 9, "fma": 12, "sse4.1": 19, "sse4.2": 20, "movbe": 22,
            "popcnt": 23, "avx": 28, "f16c": 29,
        }),
        (_MORE, _B, {
            "bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "adx": 19,
            "avx512ifma": 21, "avx512cd": 28, "avx512bw": 30, "avx512vl": 31,
        }),
        (_MORE, _C, {
            "avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "avx512vnni": 11, "avx512bitalg": 12,
            "avx512vpopcntdq": 14,
        }),
        (_MORE, _D, {"amx-bf16": 22, "avx512fp16": 23, "amx-tile": 24, "amx-int8": 25}),
        (_MORE_1, _A, {"avxvnni": 4, "avx512bf16": 5, "amx-fp16": 21, "avxifma": 23}),
        (_MORE_1, _D, {"avxvnniint8": 4, "avxneconvert": 5, "avxvnniint16": 10}),
        (_EXTENDED, _C, {"lzcnt": 5, "xop": 11, "fma4": 16, "tbm": 21}),
    )
    for feature, bit in features.items()
}  # fmt: skip
_SAVED = {"avx": 0x06, "avx512f": 0xE0, "amx-tile": 0x60000}  # bits of what xgetbv says
_AARCH64: dict[str, _Bit] = {
    feature: ((kind,), bit)
    for kind, features in (
        (16, {
            "fp-armv8": 0, "neon": 1, "crc": 7, "lse": 8, "fullfp16": 10, "dotprod": 20, "sve": 22,
        }),
        (26, {"sve2": 1, "i8mm": 13, "bf16": 14}),
    )
    for feature, bit in features.items()
}  # fmt: skip


def plain(target: LlvmTarget) -> LlvmTarget:
    """The least processor of the family, which can run the check."""
    cpu = {"x86_64": "x86-64", "riscv64": "generic-rv64"}.get(_family(target), "generic")
    return replace(target, cpu=cpu, features="", vector_bytes=16)


def processor_check(target: LlvmTarget, name: str) -> list[str]:
    """The lines of ``i1 name()``, which checks once and caches the answer, and of its helpers."""
    checks = _Checks()
    match _family(target):
        case "x86_64" if _family(host_target()) == "x86_64":  # LLVM assembles for its host alone
            _x86_64(checks, target.enabled)
        case "aarch64":
            _aarch64(checks, target.enabled)
    return [
        "declare i64 @getauxval(i64)",
        f"@{name}.known = internal global i32 0",  # 1: no, 2: yes
        f"define internal i1 @{name}.now() noinline {{",
        *checks.lines,
        "  ret i1 true",
        "no:",
        "  ret i1 false",
        "}",
        f"define internal i1 @{name}() {{",
        f"  %known = load atomic i32, ptr @{name}.known monotonic, align 4",
        "  %some = icmp ne i32 %known, 0",
        "  br i1 %some, label %remember, label %look",
        "remember:",
        "  %yes = icmp eq i32 %known, 2",
        "  ret i1 %yes",
        "look:",
        f"  %good = call i1 @{name}.now()",
        "  %found = select i1 %good, i32 2, i32 1",
        f"  store atomic i32 %found, ptr @{name}.known monotonic, align 4",
        "  ret i1 %good",
        "}",
    ]


def _family(target: LlvmTarget) -> str:
    return target.triple.split("-")[0]


class _Checks:
    """Lines that branch to ``no`` at the first missing feature."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def value(self, instruction: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {instruction}")
        return f"%v{self.count}"

    def require(self, condition: str) -> None:
        self.count += 1
        self.lines.append(f"  br i1 {condition}, label %right{self.count}, label %no")
        self.lines.append(f"right{self.count}:")

    def bits(self, kind: str, word: str, mask: int) -> None:
        """Require all bits of ``mask``."""
        masked = self.value(f"and {kind} {word}, {mask}")
        self.require(self.value(f"icmp eq {kind} {masked}, {mask}"))

    def assembly(self, text: str, results: str, inputs: dict[str, int]) -> list[str]:
        """One instruction: what it leaves in the registers ``results``."""
        kinds = f"{{{', '.join(['i32'] * len(results))}}}"
        registers = [*(f"={{{r}x}}" for r in results), *(f"{{{r}x}}" for r in inputs)]
        given = ", ".join(f"i32 {value}" for value in inputs.values())
        answer = self.value(
            f'call {kinds} asm sideeffect "{text}", "{",".join(registers)}"({given})'
        )
        return [self.value(f"extractvalue {kinds} {answer}, {k}") for k in range(len(results))]


def _masks(table: dict[str, _Bit], features: frozenset[str]) -> dict[_Word, int]:
    """The bits to test in each word."""
    masks: dict[_Word, int] = {}
    for word, bit in sorted(table[feature] for feature in features if feature in table):
        masks[word] = masks.get(word, 0) | 1 << bit
    return masks


def _x86_64(checks: _Checks, features: frozenset[str]) -> None:
    masks = _masks(_X86_64, features)
    saved = sum(bits for feature, bits in _SAVED.items() if feature in features)
    if saved:
        masks = {_BASIC_C: 0} | masks
        masks[_BASIC_C] |= 1 << _HAS_XGETBV
    last = checks.assembly("cpuid", "abcd", {"a": 0, "c": 0})[0]
    least = max((word[0] for word in masks if word[0] < 0x80000000), default=0)
    checks.require(
        checks.value(f"icmp uge i32 {last}, {least}")
    )  # leaves beyond the last one are undefined
    for (leaf, subleaf, register), mask in masks.items():
        answer = checks.assembly("cpuid", "abcd", {"a": leaf, "c": subleaf})
        checks.bits("i32", answer[register], mask)
    if saved:
        checks.bits("i32", checks.assembly("xgetbv", "ad", {"c": 0})[0], saved)
    if "amx-tile" in features:
        registers = "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory}"
        asked = f"i64 {ARCH_PRCTL}, i64 {REQUEST}, i64 {TILES}"
        denied = checks.value(f'call i64 asm sideeffect "syscall", "{registers}"({asked})')
        checks.require(checks.value(f"icmp eq i64 {denied}, 0"))


def _aarch64(checks: _Checks, features: frozenset[str]) -> None:
    for (kind,), mask in _masks(_AARCH64, features).items():
        checks.bits("i64", checks.value(f"call i64 @getauxval(i64 {kind})"), mask)
