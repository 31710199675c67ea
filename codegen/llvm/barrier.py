"""How threads wait and meet at barriers, as LLVM IR: a part of ``runtime``'s module.

* The last thread to arrive increments the barrier's count, which the others wait for: they spin,
  yield and sleep on it as in ``runtime``. A waiter announces that it sleeps before it looks again,
  and the last thread looks for sleepers after it has counted (sequentially consistent), so no
  wake-up is lost.
* Threads that sleep alternately look like one thread to Linux, which keeps them on one processor if
  no other is idle (measured: 20 µs a step; one thread 7 µs, on two processors 5 µs). On virtual
  machines idle processors look busy, too (``vcpu_is_preempted``). So a thread that wakes up on its
  waker's processor migrates; its affinity mask stays the same. A launch wakes workers on other
  processors at once.
"""

from __future__ import annotations

BARRIER_TEMPLATE = r"""
@arrived = internal global i32 0, align 64         ; threads at the barrier
@meetings = internal global i32 0, align 64        ; barriers passed; threads wait for it to change
@sleepers = internal global i32 0, align 4         ; threads that may sleep on it
@waker = internal global i32 -1, align 64          ; processor of whoever last woke up others

@handles = internal global [$WORKERS x i64] zeroinitializer                 ; of workers
@masks = internal global [$WORKERS x [128 x i8]] zeroinitializer, align 8  ; their processors
@narrowed = internal global [$WORKERS x i32] zeroinitializer               ; have fewer, if not 0

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @pthread_getaffinity_np(i64, i64, ptr)
declare i32 @pthread_setaffinity_np(i64, i64, ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_yield()
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal i64 @now() {
  %time = alloca { i64, i64 }, align 8
  %failed = call i32 @clock_gettime(i32 1, ptr %time)
  %s = load i64, ptr %time, align 8
  %ns.p = getelementptr { i64, i64 }, ptr %time, i32 0, i32 1
  %ns = load i64, ptr %ns.p, align 8
  %from.s = mul i64 %s, 1000000000
  %both = add i64 %from.s, %ns
  ret i64 %both
}

; The same for up to %longest nanoseconds, and between two looks whoever waits for this processor
; has it; whether it has changed. Not on a processor that somebody else needs.
define internal i1 @yield_while(ptr %word, i32 %old, i64 %longest) {
entry:
  %start = call i64 @now()
  br label %look
look:
  %before = phi i64 [ %start, %entry ], [ %time, %again ]
  %now = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %now, %old
  br i1 %changed, label %done, label %again
again:
  %failed = call i32 @sched_yield()
  %time = call i64 @now()
  %spent = sub i64 %time, %start
  %soon = icmp slt i64 %spent, %longest
  %away = sub i64 %time, %before
  %free = icmp slt i64 %away, $AWAY
  %more = and i1 %soon, %free
  br i1 %more, label %look, label %done
done:
  ret i1 %changed
}

; Sleep until *word is no longer %old. Whoever changes it knows that somebody sleeps.
define internal void @sleep_while(ptr %word, i32 %old) {
entry:
  br label %check
check:
  %now = load atomic i32, ptr %word seq_cst, align 4
  %changed = icmp ne i32 %now, %old
  br i1 %changed, label %done, label %sleep
sleep:
  call void @futex_wait(ptr %word, i32 %old)
  br label %check
done:
  ret void
}

define internal void @note_waker() {
  %cpu = call i32 @sched_getcpu()
  store atomic i32 %cpu, ptr @waker monotonic, align 4
  ret void
}

; Set %others to %mask without the processor that this runs on.
define internal void @all_but_this(ptr %mask, ptr %others) {
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %others, ptr align 8 %mask, i64 128, i1 false)
  %cpu = call i32 @sched_getcpu()
  %listed = icmp ult i32 %cpu, 1024
  br i1 %listed, label %drop, label %done
drop:
  %byte = lshr i32 %cpu, 3
  %at = getelementptr i8, ptr %others, i32 %byte
  %all = load i8, ptr %at, align 1
  %low = trunc i32 %cpu to i8
  %place = and i8 %low, 7
  %bit = shl i8 1, %place
  %rest = xor i8 %bit, -1
  %fewer = and i8 %all, %rest
  store i8 %fewer, ptr %at, align 1
  br label %done
done:
  ret void
}

; For a leader whose launch worker %i sleeps through, or has not begun: wake it up, but not on this
; processor, where it would wait its turn though others are free. The worker itself gets its set of
; processors back from @masks, which is written only while @narrowed is 0. That counts before and
; after, so that the worker never takes itself for restored while it is being narrowed; and the
; mailbox has two more afterwards, so that it does not sleep before it has looked.
define internal void @call_elsewhere(i64 %i) {
  %others = alloca [128 x i8], align 8
  %word = getelementptr [$WORKERS x %Slot], ptr @slots, i64 0, i64 %i, i32 0
  %mask = getelementptr [$WORKERS x [128 x i8]], ptr @masks, i64 0, i64 %i
  %narrowed = getelementptr [$WORKERS x i32], ptr @narrowed, i64 0, i64 %i
  %handle.p = getelementptr [$WORKERS x i64], ptr @handles, i64 0, i64 %i
  %handle = load i64, ptr %handle.p, align 8
  %there = icmp ne i64 %handle, 0
  br i1 %there, label %begin, label %done
begin:
  %was = load atomic i32, ptr %narrowed seq_cst, align 4
  %fresh = icmp eq i32 %was, 0
  br i1 %fresh, label %ask, label %known
ask:
  %failed = call i32 @pthread_getaffinity_np(i64 %handle, i64 128, ptr %mask)
  %found = icmp eq i32 %failed, 0
  br i1 %found, label %known, label %tell
known:
  call void @all_but_this(ptr %mask, ptr %others)
  %one.more = atomicrmw add ptr %narrowed, i32 1 seq_cst, align 4
  %nowhere = call i32 @pthread_setaffinity_np(i64 %handle, i64 128, ptr %others)
  %again = atomicrmw add ptr %narrowed, i32 1 seq_cst, align 4
  br label %tell
tell:
  %told = atomicrmw add ptr %word, i32 2 seq_cst, align 4
  call void @futex_wake(ptr %word, i64 1)
  br label %done
done:
  ret void
}

; For worker %i, when it is awake.
define internal void @widen(i64 %i) {
entry:
  %narrowed = getelementptr [$WORKERS x i32], ptr @narrowed, i64 0, i64 %i
  %mask = getelementptr [$WORKERS x [128 x i8]], ptr @masks, i64 0, i64 %i
  br label %look
look:
  %times = load atomic i32, ptr %narrowed seq_cst, align 4
  %must = icmp ne i32 %times, 0
  br i1 %must, label %restore, label %done
restore:
  %failed = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  %pair = cmpxchg ptr %narrowed, i32 %times, i32 0 seq_cst monotonic, align 4
  br label %look
done:
  ret void
}

; For a thread that slept: where it was woken up on its waker's processor, which has work of its
; own, it moves to any other, if there is one.
define internal void @keep_apart() {
  %mask = alloca [128 x i8], align 8
  %others = alloca [128 x i8], align 8
  %cpu = call i32 @sched_getcpu()
  %other = load atomic i32, ptr @waker monotonic, align 4
  %same = icmp eq i32 %cpu, %other
  br i1 %same, label %look, label %done
look:
  %failed = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %known = icmp eq i32 %failed, 0
  br i1 %known, label %move, label %done
move:
  call void @all_but_this(ptr %mask, ptr %others)
  %nowhere = call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  %moved = icmp eq i32 %nowhere, 0
  br i1 %moved, label %restore, label %done
restore:
  %restored = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  br label %done
done:
  ret void
}

; Yield, then sleep, until *word is no longer %old; *%asleep counts who may sleep on it. Where
; others had this processor meanwhile, the wait is time that the team lost to them.
define internal void @linger_while(ptr %word, i32 %old, ptr %asleep) {
  %start = call i64 @now()
  %soon = call i1 @yield_while(ptr %word, i32 %old, i64 $PATIENCE)
  br i1 %soon, label %done, label %late
late:
  %gave.up = call i64 @now()
  %one.more = atomicrmw add ptr %asleep, i32 1 seq_cst, align 4
  call void @sleep_while(ptr %word, i32 %old)
  %one.less = atomicrmw sub ptr %asleep, i32 1 seq_cst, align 4
  call void @keep_apart()
  %polled = sub i64 %gave.up, %start
  %displaced = icmp slt i64 %polled, $PATIENCE
  br i1 %displaced, label %count, label %done
count:
  %end = call i64 @now()
  %time = sub i64 %end, %start
  %sum = atomicrmw add ptr @lost, i64 %time monotonic, align 8
  br label %done
done:
  ret void
}

; The last of %team threads to come sets the others free.
define void @weft_barrier(i64 %thread, i64 %team) {
entry:
  %now = load atomic i32, ptr @meetings monotonic, align 4
  %team32 = trunc i64 %team to i32
  %others = sub i32 %team32, 1
  %before = atomicrmw add ptr @arrived, i32 1 seq_cst, align 4
  %is.last = icmp eq i32 %before, %others
  br i1 %is.last, label %last, label %come
last:
  store atomic i32 0, ptr @arrived monotonic, align 4
  %following = add i32 %now, 1
  store atomic i32 %following, ptr @meetings seq_cst, align 4
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %must = icmp ne i32 %asleep, 0
  br i1 %must, label %wake, label %done
wake:
  call void @note_waker()
  call void @futex_wake(ptr @meetings, i64 $WORKERS)
  br label %done
come:
  %soon = call i1 @spin_while(ptr @meetings, i32 %now)
  br i1 %soon, label %done, label %linger
linger:
  call void @linger_while(ptr @meetings, i32 %now, ptr @sleepers)
  br label %done
done:
  ret void
}
"""


# ---- Teams beside others that need the processors. A thread that waits at a barrier for one that
# others keep from running loses as much time as these take: two threads beside two busy processes
# took 1.6 times as long as one (measured). So a region whose waits displaced threads for a quarter
# of its time is followed by regions on half the team, for eight times as long as it took, then for
# twice as long each time that the whole team fails again, up to a second.


NEIGHBOURS_TEMPLATE = r"""
@lost = internal global i64 0, align 64            ; ns that displaced threads of a region waited
@limit = internal global i64 0, align 8            ; threads of a region until @limited, ns
@limited = internal global i64 0, align 8
@respite = internal global i64 0, align 8          ; ns that it holds; 0: undisturbed

; Threads of a region that begins at %start, of %team.
define internal i64 @limit_team(i64 %team, i64 %start) {
  %until = load i64, ptr @limited, align 8
  %limit = load i64, ptr @limit, align 8
  %holds = icmp slt i64 %start, %until
  %fewer = call i64 @llvm.smin.i64(i64 %team, i64 %limit)
  %n = select i1 %holds, i64 %fewer, i64 %team
  store atomic i64 0, ptr @lost monotonic, align 8
  ret i64 %n
}

; Whether the region of %n threads that began at %start was disturbed, and what follows from it.
define internal void @judge_team(i64 %n, i64 %start) {
  %end = call i64 @now()
  %time = sub i64 %end, %start
  %lost = load atomic i64, ptr @lost monotonic, align 8
  %waiters = sub i64 %n, 1
  %all = mul i64 %time, %waiters
  %bearable = sdiv i64 %all, 4
  %disturbed = icmp sgt i64 %lost, %bearable
  br i1 %disturbed, label %shrink, label %keep
keep:
  store i64 0, ptr @respite, align 8
  ret void
shrink:
  %before = load i64, ptr @respite, align 8
  %twice = mul i64 %before, 2
  %eight = mul i64 %time, 8
  %most = call i64 @llvm.smax.i64(i64 %eight, i64 1000000000)
  %longer = call i64 @llvm.smax.i64(i64 %twice, i64 %eight)
  %respite = call i64 @llvm.smin.i64(i64 %longer, i64 %most)
  store i64 %respite, ptr @respite, align 8
  %half = sdiv i64 %n, 2
  store i64 %half, ptr @limit, align 8
  %until = add i64 %end, %respite
  store i64 %until, ptr @limited, align 8
  ret void
}
declare i64 @llvm.smax.i64(i64, i64)
"""


# ---- One launch, from its leader's side, as LLVM IR: a part of ``runtime``'s module.
#
# The leader posts a share to each worker, runs its own, then steals shares that have not begun: a
# worker may still be waking up, or its processor may be taken. A share is claimed by making its
# worker's mailbox even; results do not depend on the thread that runs it. Threads of a region run
# at the same time, and cannot steal. Then the leader waits for the shares that workers have begun.


LAUNCH_TEMPLATE = r"""
define i32 @weft_launch(ptr %kernel, ptr %buffers, ptr %params, ptr %status, ptr %scratch,
                        i64 %stride, i64 %extent, i32 %team) {
entry:
  %any = icmp ne i64 %extent, 0
  br i1 %any, label %some, label %done
some:
  %region = icmp slt i64 %extent, 0
  %team64 = sext i32 %team to i64
  br i1 %region, label %meets, label %shares
shares:
  %least = call i64 @llvm.smin.i64(i64 %team64, i64 %extent)
  br label %known
meets:
  %start.of.region = call i64 @now()
  %undisturbed = call i64 @limit_team(i64 %team64, i64 %start.of.region)
  br label %known
known:
  %n = phi i64 [ %least, %shares ], [ %undisturbed, %meets ]
  %start = phi i64 [ 0, %shares ], [ %start.of.region, %meets ]
  %many = icmp sgt i64 %n, 1
  br i1 %many, label %spread, label %alone
alone:
  %all = select i1 %region, i64 1, i64 %extent
  call void %kernel(ptr %buffers, ptr %params, ptr %status, ptr %scratch, i64 0, i64 %all)
  br label %done
spread:
  store ptr %kernel, ptr @job, align 8
  %buffers.p = getelementptr %Job, ptr @job, i32 0, i32 1
  store ptr %buffers, ptr %buffers.p, align 8
  %params.p = getelementptr %Job, ptr @job, i32 0, i32 2
  store ptr %params, ptr %params.p, align 8
  %status.p = getelementptr %Job, ptr @job, i32 0, i32 3
  store ptr %status, ptr %status.p, align 8
  %scratch.p = getelementptr %Job, ptr @job, i32 0, i32 4
  store ptr %scratch, ptr %scratch.p, align 8
  %stride.p = getelementptr %Job, ptr @job, i32 0, i32 5
  store i64 %stride, ptr %stride.p, align 8
  %extent.p = getelementptr %Job, ptr @job, i32 0, i32 6
  store i64 %extent, ptr %extent.p, align 8
  %team.p = getelementptr %Job, ptr @job, i32 0, i32 7
  store i64 %n, ptr %team.p, align 8
  %mode.p = getelementptr %Job, ptr @job, i32 0, i32 8
  %mode = call i64 @read_mode()
  store i64 %mode, ptr %mode.p, align 8
  %helpers = sub i64 %n, 1
  %helpers32 = trunc i64 %helpers to i32
  store atomic i32 %helpers32, ptr @pending seq_cst, align 4
  br label %post
post:
  %i = phi i64 [ 0, %spread ], [ %i1, %posted ]
  %word = getelementptr [$WORKERS x %Slot], ptr @slots, i64 0, i64 %i, i32 0
  %sleeps = getelementptr [$WORKERS x %Slot], ptr @slots, i64 0, i64 %i, i32 1
  %old = atomicrmw add ptr %word, i32 1 seq_cst, align 4
  %asleep = load atomic i32, ptr %sleeps seq_cst, align 4
  %must = icmp ne i32 %asleep, 0
  br i1 %must, label %wake, label %posted
wake:
  call void @call_elsewhere(i64 %i)
  br label %posted
posted:
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %helpers
  br i1 %more, label %post, label %own
own:
  call void @share(i64 0)
  br i1 %region, label %wait, label %help
help:
  %j = phi i64 [ 0, %own ], [ %j1, %helped ]
  %theirs = getelementptr [$WORKERS x %Slot], ptr @slots, i64 0, i64 %j, i32 0
  %j1 = add i64 %j, 1
  %before = load atomic i32, ptr %theirs monotonic, align 4
  %odd = and i32 %before, 1
  %open = icmp ne i32 %odd, 0
  br i1 %open, label %call, label %helped
call:
  call void @call_elsewhere(i64 %j)
  %state = load atomic i32, ptr %theirs monotonic, align 4
  %still.odd = and i32 %state, 1
  %still = icmp ne i32 %still.odd, 0
  br i1 %still, label %take, label %helped
take:
  %taken = add i32 %state, 1
  %pair = cmpxchg ptr %theirs, i32 %state, i32 %taken seq_cst monotonic, align 4
  %mine = extractvalue { i32, i1 } %pair, 1
  br i1 %mine, label %instead, label %helped
instead:
  call void @share(i64 %j1)
  %fewer = atomicrmw sub ptr @pending, i32 1 seq_cst, align 4
  br label %helped
helped:
  %others = icmp slt i64 %j1, %helpers
  br i1 %others, label %help, label %wait
wait:
  %left = load atomic i32, ptr @pending seq_cst, align 4
  %finished = icmp eq i32 %left, 0
  br i1 %finished, label %finish, label %not.yet
not.yet:
  %soon = call i1 @spin_while(ptr @pending, i32 %left)
  br i1 %soon, label %wait, label %linger
linger:
  call void @linger_while(ptr @pending, i32 %left, ptr @leader_sleeps)
  br label %wait
finish:
  br i1 %region, label %judge, label %done
judge:
  call void @judge_team(i64 %n, i64 %start)
  br label %done
done:
  %code.p = getelementptr i64, ptr %status, i64 1
  %code64 = load i64, ptr %code.p, align 8
  %code = trunc i64 %code64 to i32
  ret i32 %code
}
"""
