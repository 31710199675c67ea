"""The native thread pool, as LLVM IR over libc alone: no OpenMP, no C compiler.

    i32  weft_acquire(i32 threads)      how many threads this call may use: threads, fewer, or 1
    i32  weft_team(i32 awake, i32 asleep)      how many of them run a launch that is worth so many
                                        if they are awake, and so many if some of them sleep;
                                        as if awake once in MISSED times, for others may follow
    i32  weft_launch(kernel, buffers, params, status, scratch, stride, extent, team)
                                        run one kernel to its end; the code of a failed Check
    void weft_barrier(i64 thread, i64 team)    inside a region: all threads of its team meet
    void weft_release(i32 team)         give the pool back
    i32  weft_workers()                 worker threads of this process
    i64  weft_enter(i32 strict)         this thread computes as compiled code does: the caller's
                                        mode of floats (``float_mode``)
    void weft_leave(i64 caller)         it computes as its caller does

A kernel is ``void kernel(ptr buffers, ptr params, ptr status, ptr scratch, i64 begin, i64 end)``. A
launch gives thread t of n the iterations [extent * t / n, extent * (t + 1) / n) and the scratch
memory at ``scratch + t * stride``. Where ``extent`` is -1 the kernel is a region: thread t of n has
(t, n) for (begin, end), n is all of the team, and all threads run at the same time.

* One pool per process, grown to the largest team requested. A caller that finds it in use runs on
  its own thread, so that the machine is never oversubscribed and no caller waits.
* Workers wait on a mailbox of their own (one cache line each); the leader waits for them in the
  same way, and so do threads at a barrier (``barrier``). Whoever waits spins for a moment,
  then yields its processor between two looks, and sleeps in a futex at last. Both sides publish
  before they look (sequentially consistent), so no wake-up is lost.
* A wake-up takes 40 µs, on virtual machines 200, or a thousand when the host is busy. So threads
  that wait for others of their launch spin long: otherwise they would sleep while these wake up,
  and vice versa, at every launch. Workers without work sleep sooner.
* Yielding is free if no thread waits for the processor, and hands it over otherwise. A leader that
  slept instead was woken up on its worker's processor, which then had to wait for it: a call took
  16 ms instead of 4.
* Where those who wait at barriers lose their processors to others, regions have smaller teams for a
  while (``NEIGHBOURS_TEMPLATE``; decision 063).
* The pool is held under the process's pid, and its workers belong to one pid: a forked child, in
  which only the forking thread lives, finds both foreign and starts afresh.
* Workers are detached and block every signal; they die with the process. The module that holds this
  code must never be unloaded.
"""

from __future__ import annotations

from weft.codegen.llvm.barrier import (
    BARRIER_TEMPLATE,
    LAUNCH_TEMPLATE,
    NEIGHBOURS_TEMPLATE,
)
from weft.codegen.llvm.float_mode import float_mode_ir
from weft.ir.machine import WAITING, Waiting
from weft.ir.program import ALIGNMENT

MAX_WORKERS = 255  # threads of a call, without its own
MISSED = 4  # launches not worth a wake-up each that together are worth one

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_PAUSE = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
    "riscv64": "fence seq_cst",
}
_DECLARE = {
    "x86_64": "declare void @llvm.x86.sse2.pause()",
    "aarch64": "declare void @llvm.aarch64.hint(i32)",
    "riscv64": "",
}


def runtime_ir(triple: str, waiting: Waiting = WAITING) -> str:
    """The module's text for ``triple``, whose threads wait awake as ``waiting`` says; ``KeyError``
    for a machine or system without a port."""
    machine, system = triple.split("-")[0], triple
    if "linux" not in system:
        raise KeyError(triple)
    values = {
        "TRIPLE": triple,
        "FUTEX": str(_FUTEX[machine]),
        "PAUSE": _PAUSE[machine],
        "DECLARE": _DECLARE[machine],
        "SLOT_BYTES": str(MAX_WORKERS * ALIGNMENT),
        "HANDLE_BYTES": str(MAX_WORKERS * 8),
        "FLAG_BYTES": str(MAX_WORKERS * 4),
        "WORKERS": str(MAX_WORKERS),
        "SPINS": str(waiting.spins),
        "AWAY": str(waiting.away),
        "IDLE": str(waiting.idle),
        "PATIENCE": str(waiting.patience),
        "MISSED": str(MISSED),
    }
    parts = (_TEMPLATE, LAUNCH_TEMPLATE, NEIGHBOURS_TEMPLATE, BARRIER_TEMPLATE)
    text = "".join(parts) + float_mode_ir(machine)
    for key, value in values.items():
        text = text.replace(f"${key}", value)
    return text


_TEMPLATE = r"""
target triple = "$TRIPLE"

%Slot = type { i32, i32, [56 x i8] }  ; mailbox (odd: a share is to be taken), worker sleeps
; launch's arguments, team as i64, its leader's mode of floats
%Job = type { ptr, ptr, ptr, ptr, ptr, i64, i64, i64, i64 }

@slots = internal global [$WORKERS x %Slot] zeroinitializer, align 64
@holder = internal global i32 0, align 64          ; pid of the caller that has the pool, or 0
@home = internal global i32 0                      ; pid of the process that the workers live in
@workers = internal global i32 0
@job = internal global %Job zeroinitializer, align 64
@pending = internal global i32 0, align 64         ; workers that have not finished the job
@leader_sleeps = internal global i32 0, align 4
@missed = internal global i32 0, align 4           ; launches that went without those who slept

declare i32 @getpid()
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
$DECLARE

define internal void @futex_wait(ptr %word, i32 %value) {
  %v = zext i32 %value to i64
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i64 128, i64 %v, i64 0, i64 0, i64 0)
  ret void
}

define internal void @futex_wake(ptr %word, i64 %most) {
  %r = call i64 (i64, ...) @syscall(i64 $FUTEX, ptr %word, i64 129, i64 %most, i64 0, i64 0, i64 0)
  ret void
}

; Spin while *word is %old, but not for long; whether it has changed.
define internal i1 @spin_while(ptr %word, i32 %old) {
entry:
  br label %spin
spin:
  %count = phi i32 [ 0, %entry ], [ %next, %again ]
  %now = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %now, %old
  br i1 %changed, label %done, label %again
again:
  $PAUSE
  %next = add i32 %count, 1
  %more = icmp ult i32 %next, $SPINS
  br i1 %more, label %spin, label %done
done:
  ret i1 %changed
}

; Thread %t's share of the job.
define internal void @share(i64 %t) {
  %kernel = load ptr, ptr @job, align 8
  %buffers.p = getelementptr %Job, ptr @job, i32 0, i32 1
  %buffers = load ptr, ptr %buffers.p, align 8
  %params.p = getelementptr %Job, ptr @job, i32 0, i32 2
  %params = load ptr, ptr %params.p, align 8
  %status.p = getelementptr %Job, ptr @job, i32 0, i32 3
  %status = load ptr, ptr %status.p, align 8
  %scratch.p = getelementptr %Job, ptr @job, i32 0, i32 4
  %scratch = load ptr, ptr %scratch.p, align 8
  %stride.p = getelementptr %Job, ptr @job, i32 0, i32 5
  %stride = load i64, ptr %stride.p, align 8
  %extent.p = getelementptr %Job, ptr @job, i32 0, i32 6
  %extent = load i64, ptr %extent.p, align 8
  %team.p = getelementptr %Job, ptr @job, i32 0, i32 7
  %team = load i64, ptr %team.p, align 8
  %offset = mul i64 %t, %stride
  %own = getelementptr i8, ptr %scratch, i64 %offset
  %t1 = add i64 %t, 1
  %low = mul i64 %extent, %t
  %high = mul i64 %extent, %t1
  %first = udiv i64 %low, %team
  %last = udiv i64 %high, %team
  %region = icmp slt i64 %extent, 0
  %begin = select i1 %region, i64 %t, i64 %first
  %end = select i1 %region, i64 %team, i64 %last
  call void %kernel(ptr %buffers, ptr %params, ptr %status, ptr %own, i64 %begin, i64 %end)
  ret void
}

define internal ptr @worker(ptr %number) {
entry:
  %i = ptrtoint ptr %number to i64
  %t = add i64 %i, 1
  %word = getelementptr [$WORKERS x %Slot], ptr @slots, i64 0, i64 %i, i32 0
  %sleeps = getelementptr [$WORKERS x %Slot], ptr @slots, i64 0, i64 %i, i32 1
  br label %loop
loop:
  %seen = phi i32 [ 0, %entry ], [ %value, %look ],
                  [ %taken, %work ], [ %taken, %last ], [ %taken, %wake ]
  %called = call i1 @spin_while(ptr %word, i32 %seen)
  br i1 %called, label %look, label %linger
linger:
  %late = call i1 @yield_while(ptr %word, i32 %seen, i64 $IDLE)
  br i1 %late, label %look, label %rest
rest:
  call void @widen(i64 %i)
  store atomic i32 1, ptr %sleeps seq_cst, align 4
  call void @sleep_while(ptr %word, i32 %seen)
  store atomic i32 0, ptr %sleeps seq_cst, align 4
  br label %look
look:
  call void @widen(i64 %i)
  %value = load atomic i32, ptr %word acquire, align 4
  %odd = and i32 %value, 1
  %open = icmp ne i32 %odd, 0
  br i1 %open, label %take, label %loop
take:
  %taken = add i32 %value, 1
  %pair = cmpxchg ptr %word, i32 %value, i32 %taken seq_cst monotonic, align 4
  %mine = extractvalue { i32, i1 } %pair, 1
  br i1 %mine, label %work, label %look
work:
  %mode.p = getelementptr %Job, ptr @job, i32 0, i32 8
  %mode = load i64, ptr %mode.p, align 8
  call void @write_mode(i64 %mode)
  call void @share(i64 %t)
  %left = atomicrmw sub ptr @pending, i32 1 seq_cst, align 4
  %is.last = icmp eq i32 %left, 1
  br i1 %is.last, label %last, label %loop
last:
  %waits = load atomic i32, ptr @leader_sleeps seq_cst, align 4
  %must = icmp ne i32 %waits, 0
  br i1 %must, label %wake, label %loop
wake:
  call void @note_waker()
  call void @futex_wake(ptr @pending, i64 1)
  br label %loop
}

; Start one more worker; false where the system refuses.
define internal i1 @spawn() {
  %thread = alloca i64, align 8
  %all = alloca [128 x i8], align 8
  %before = alloca [128 x i8], align 8
  %n = load i32, ptr @workers, align 4
  %n64 = zext i32 %n to i64
  %number = inttoptr i64 %n64 to ptr
  %f = call i32 @sigfillset(ptr %all)
  %m = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %before)
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %number)
  %u = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %started, label %refused
started:
  %handle = load i64, ptr %thread, align 8
  %handle.p = getelementptr [$WORKERS x i64], ptr @handles, i64 0, i64 %n64
  store i64 %handle, ptr %handle.p, align 8
  %d = call i32 @pthread_detach(i64 %handle)
  %n1 = add i32 %n, 1
  store i32 %n1, ptr @workers, align 4
  ret i1 true
refused:
  ret i1 false
}

define i32 @weft_workers() {
  %pid = call i32 @getpid()
  %owner = load atomic i32, ptr @home monotonic, align 4
  %ours = icmp eq i32 %pid, %owner
  %n = load atomic i32, ptr @workers monotonic, align 4
  %shown = select i1 %ours, i32 %n, i32 0
  ret i32 %shown
}

define i32 @weft_acquire(i32 %threads) {
entry:
  %many = icmp sgt i32 %threads, 1
  br i1 %many, label %try, label %alone
try:
  %pid = call i32 @getpid()
  %holding = load atomic i32, ptr @holder monotonic, align 4
  %busy = icmp eq i32 %holding, %pid
  br i1 %busy, label %alone, label %take
take:
  %pair = cmpxchg ptr @holder, i32 %holding, i32 %pid acquire monotonic, align 4
  %taken = extractvalue { i32, i1 } %pair, 1
  br i1 %taken, label %held, label %alone
held:
  %owner = load i32, ptr @home, align 4
  %ours = icmp eq i32 %owner, %pid
  br i1 %ours, label %grow, label %afresh
afresh:
  call void @llvm.memset.p0.i64(ptr align 64 @slots, i8 0, i64 $SLOT_BYTES, i1 false)
  call void @llvm.memset.p0.i64(ptr align 8 @handles, i8 0, i64 $HANDLE_BYTES, i1 false)
  call void @llvm.memset.p0.i64(ptr align 4 @narrowed, i8 0, i64 $FLAG_BYTES, i1 false)
  store i32 0, ptr @workers, align 4
  store i32 0, ptr @pending, align 4
  store i32 0, ptr @leader_sleeps, align 4
  store i32 0, ptr @arrived, align 4
  store i32 0, ptr @sleepers, align 4
  store i64 0, ptr @limited, align 8
  store i32 %pid, ptr @home, align 4
  br label %grow
grow:
  %asked = sub i32 %threads, 1
  %wanted = call i32 @llvm.smin.i32(i32 %asked, i32 $WORKERS)
  %n = load i32, ptr @workers, align 4
  %short = icmp slt i32 %n, %wanted
  br i1 %short, label %more, label %ready
more:
  %ok = call i1 @spawn()
  br i1 %ok, label %grow, label %ready
ready:
  %have = load i32, ptr @workers, align 4
  %used = call i32 @llvm.smin.i32(i32 %have, i32 %wanted)
  %team = add i32 %used, 1
  %single = icmp eq i32 %team, 1
  br i1 %single, label %give, label %go
give:
  store atomic i32 0, ptr @holder release, align 4
  br label %alone
go:
  ret i32 %team
alone:
  ret i32 1
}
declare i32 @llvm.smin.i32(i32, i32)
declare i64 @llvm.smin.i64(i64, i64)

define void @weft_release(i32 %team) {
  %many = icmp sgt i32 %team, 1
  br i1 %many, label %give, label %done
give:
  store atomic i32 0, ptr @holder release, align 4
  br label %done
done:
  ret void
}

define i32 @weft_team(i32 %awake, i32 %asleep) {
entry:
  %one = icmp sle i32 %awake, 1
  br i1 %one, label %alone, label %look
look:
  %last = sub i32 %awake, 2
  %i = zext i32 %last to i64
  %sleeps = getelementptr [$WORKERS x %Slot], ptr @slots, i64 0, i64 %i, i32 1
  %asleep.now = load atomic i32, ptr %sleeps monotonic, align 4
  %sleeping = icmp ne i32 %asleep.now, 0
  br i1 %sleeping, label %missed, label %all
missed:
  %before = load i32, ptr @missed, align 4
  %more = add i32 %before, 1
  %enough = icmp uge i32 %more, $MISSED
  %fewer = icmp slt i32 %asleep, %awake
  %call = and i1 %enough, %fewer
  %count = select i1 %call, i32 0, i32 %more
  store i32 %count, ptr @missed, align 4
  br i1 %call, label %all, label %some
some:
  ret i32 %asleep
all:
  ret i32 %awake
alone:
  ret i32 1
}
"""
