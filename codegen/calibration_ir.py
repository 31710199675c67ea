"""The loops that calibration times, as LLVM IR. Results depend on arguments, so that LLVM cannot
fold them."""

from __future__ import annotations

from collections.abc import Sequence

CHAINED = (
    16  # one-cycle operations in an iteration of ``clock``, each on the result of the one before
)
_UNROLL = 8  # vectors that an iteration of ``read`` loads


def calibration_ir(vector_bytes: int, chains: int) -> str:
    """A module of functions that are timed.

    ``clock(n)``, ``latency(n)``, ``fma(n)``: n iterations; ``read(at, bytes, step, apart, n)``: 8
    vectors, ``apart`` from each other, at each multiple of ``step`` below ``bytes``, n times;
    ``copy(at, bytes, n)``: bytes, a multiple of 8 vectors, to what is behind them, n times;
    ``together(threads, at, bytes, step, apart, n)``: each thread reads so, ``8 * bytes`` further
    than the one before where vectors are in 8 streams; ``meet(threads, n)``: n barriers. n is at
    least 1; the i64 that they return keeps LLVM from leaving things out.

    ``chains``: independent multiply-adds in one iteration of ``fma``; ``latency`` has one.
    """
    lanes = vector_bytes // 4
    v = f"<{lanes} x float>"
    parts = [_clock(), _fma("latency", vector_bytes, 1), _fma("fma", vector_bytes, chains)]
    return "\n".join(
        [
            f"declare {v} @llvm.fma.v{lanes}f32({v}, {v}, {v})",
            *parts,
            _read(vector_bytes),
            _copy(vector_bytes),
            _TEAM,
        ]
    )


def _turns(name: str, before: Sequence[str], loop: Sequence[str], after: Sequence[str]) -> str:
    """``i64 name(i64 n)``: ``before``, n times ``loop``, ``after``."""
    return "\n".join(
        [
            f"define i64 @{name}(i64 %n) {{",
            "entry:",
            *before,
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %in, %loop ]",
            *loop,
            "  %in = add i64 %i, 1",
            "  %more = icmp slt i64 %in, %n",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *after,
            "}",
        ]
    )


def _clock() -> str:
    loop = [f"  %x = phi i64 [ %n, %entry ], [ %x{CHAINED - 1}, %loop ]", "  %x0 = add i64 %x, %n"]
    for k in range(1, CHAINED):
        loop.append(f"  %x{k} = {'xor' if k % 2 else 'add'} i64 %x{k - 1}, %n")
    return _turns("clock", [], loop, [f"  ret i64 %x{CHAINED - 1}"])


def _fma(name: str, vector_bytes: int, chains: int) -> str:
    lanes = vector_bytes // 4
    vector = f"<{lanes} x float>"
    # Chains start from different values, so that LLVM cannot merge them.
    before = [
        "  %f = sitofp i64 %n to float",
        f"  %one = insertelement {vector} poison, float %f, i32 0",
        f"  %s = shufflevector {vector} %one, {vector} poison, <{lanes} x i32> zeroinitializer",
        f"  %s0 = fadd {vector} %s, %s",
        *(f"  %s{k} = fadd {vector} %s{k - 1}, %s" for k in range(1, chains)),
    ]
    phis = [f"  %a{k} = phi {vector} [ %s{k}, %entry ], [ %b{k}, %loop ]" for k in range(chains)]
    steps = [
        f"  %b{k} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{k}, {vector} %s, {vector} %s)"
        for k in range(chains)
    ]
    after = [
        f"  %t0 = fadd {vector} %b0, %s",
        *(f"  %t{k} = fadd {vector} %t{k - 1}, %b{k}" for k in range(1, chains)),
        f"  %r = extractelement {vector} %t{chains - 1}, i32 0",
        "  %bits = bitcast float %r to i32",
        "  %wide = zext i32 %bits to i64",
        "  ret i64 %wide",
    ]
    return _turns(name, before, [*phis, *steps], after)


def _read(vector_bytes: int) -> str:
    vector = f"<{vector_bytes // 8} x i64>"
    steps = []
    for k in range(_UNROLL):
        steps += [
            f"  %p{k} = getelementptr i8, ptr %from, i64 %o{k}",
            f"  %v{k} = load {vector}, ptr %p{k}, align {vector_bytes}",
            f"  %b{k} = xor {vector} %a{k}, %v{k}",
        ]
    return "\n".join(
        [
            "define i64 @read(ptr %at, i64 %bytes, i64 %step, i64 %apart, i64 %n) {",
            "entry:",
            *(f"  %o{k} = mul i64 %apart, {k}" for k in range(_UNROLL)),
            "  br label %again",
            "again:",
            "  %r = phi i64 [ 0, %entry ], [ %rn, %passed ]",
            f"  %kept = phi {vector} [ zeroinitializer, %entry ], [ %c{_UNROLL - 1}, %passed ]",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %again ], [ %in, %loop ]",
            *(f"  %a{k} = phi {vector} [ {'%kept' if k == 0 else 'zeroinitializer'}, %again ],"
              f" [ %b{k}, %loop ]" for k in range(_UNROLL)),
            "  %from = getelementptr i8, ptr %at, i64 %i",
            *steps,
            "  %in = add i64 %i, %step",
            "  %more = icmp slt i64 %in, %bytes",
            "  br i1 %more, label %loop, label %passed",
            "passed:",
            f"  %c1 = add {vector} %b0, %b1",
            *(f"  %c{k} = add {vector} %c{k - 1}, %b{k}" for k in range(2, _UNROLL)),
            "  fence seq_cst",
            "  %rn = add i64 %r, 1",
            "  %once = icmp slt i64 %rn, %n",
            "  br i1 %once, label %again, label %done",
            "done:",
            f"  %x = extractelement {vector} %c{_UNROLL - 1}, i32 0",
            "  ret i64 %x",
            "}",
        ]
    )  # fmt: skip


def _copy(vector_bytes: int) -> str:
    vector = f"<{vector_bytes // 8} x i64>"
    steps = []
    for k in range(_UNROLL):
        steps += [
            f"  %p{k} = getelementptr i8, ptr %from, i64 {k * vector_bytes}",
            f"  %v{k} = load {vector}, ptr %p{k}, align {vector_bytes}",
            f"  %q{k} = getelementptr i8, ptr %p{k}, i64 %bytes",
            f"  store {vector} %v{k}, ptr %q{k}, align {vector_bytes}",
        ]
    return "\n".join(
        [
            "define i64 @copy(ptr %at, i64 %bytes, i64 %n) {",
            "entry:",
            "  br label %again",
            "again:",
            "  %r = phi i64 [ 0, %entry ], [ %rn, %passed ]",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %again ], [ %in, %loop ]",
            "  %from = getelementptr i8, ptr %at, i64 %i",
            *steps,
            f"  %in = add i64 %i, {_UNROLL * vector_bytes}",
            "  %more = icmp slt i64 %in, %bytes",
            "  br i1 %more, label %loop, label %passed",
            "passed:",
            "  fence seq_cst",
            "  %rn = add i64 %r, 1",
            "  %once = icmp slt i64 %rn, %n",
            "  br i1 %once, label %again, label %done",
            "done:",
            "  ret i64 %rn",
            "}",
        ]
    )


_TEAM = """
declare i32 @weft_acquire(i32)
declare void @weft_release(i32)
declare i32 @weft_launch(ptr, ptr, ptr, ptr, ptr, i64, i64, i32)
declare void @weft_barrier(i64, i64)

; A region: thread %t of %team meets the others as often as *%count says.
define internal void @meetings(ptr %buffers, ptr %count, ptr %status, ptr %scratch, i64 %t,
                               i64 %team) {
entry:
  %n = load i64, ptr %count, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %in, %loop ]
  call void @weft_barrier(i64 %t, i64 %team)
  %in = add i64 %i, 1
  %more = icmp slt i64 %in, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

; A region: thread %t reads what is 8 * bytes further than what thread %t - 1 does.
define internal void @reading(ptr %buffers, ptr %given, ptr %status, ptr %scratch, i64 %t,
                              i64 %team) {
entry:
  %five = load <5 x i64>, ptr %given, align 8
  %address = extractelement <5 x i64> %five, i32 0
  %bytes = extractelement <5 x i64> %five, i32 1
  %step = extractelement <5 x i64> %five, i32 2
  %apart = extractelement <5 x i64> %five, i32 3
  %n = extractelement <5 x i64> %five, i32 4
  %each = mul i64 %bytes, 8
  %offset = mul i64 %each, %t
  %own = add i64 %address, %offset
  %at = inttoptr i64 %own to ptr
  %last = call i64 @read(ptr %at, i64 %bytes, i64 %step, i64 %apart, i64 %n)
  %kept = alloca i64, align 8
  store volatile i64 %last, ptr %kept, align 8
  ret void
}

define i64 @together(i64 %threads, i64 %at, i64 %bytes, i64 %step, i64 %apart, i64 %n) {
  %v0 = insertelement <5 x i64> poison, i64 %at, i32 0
  %v1 = insertelement <5 x i64> %v0, i64 %bytes, i32 1
  %v2 = insertelement <5 x i64> %v1, i64 %step, i32 2
  %v3 = insertelement <5 x i64> %v2, i64 %apart, i32 3
  %v4 = insertelement <5 x i64> %v3, i64 %n, i32 4
  %given = alloca <5 x i64>, align 64
  store <5 x i64> %v4, ptr %given, align 8
  %team = call i64 @launched(i64 %threads, ptr @reading, ptr %given)
  ret i64 %team
}

define i64 @meet(i64 %threads, i64 %n) {
  %count = alloca i64, align 8
  store i64 %n, ptr %count, align 8
  %team = call i64 @launched(i64 %threads, ptr @meetings, ptr %count)
  ret i64 %team
}

define internal i64 @launched(i64 %threads, ptr %region, ptr %given) {
  %status = alloca [4 x i64], align 8
  %wanted = trunc i64 %threads to i32
  %team = call i32 @weft_acquire(i32 %wanted)
  %code = call i32 @weft_launch(ptr %region, ptr null, ptr %given, ptr %status, ptr null, i64 0,
                                i64 -1, i32 %team)
  call void @weft_release(i32 %team)
  %wide = zext i32 %team to i64
  ret i64 %wide
}
"""
