"""Where the threads of a region meet, as LLVM IR: a part of ``llvm_runtime``'s module.

* The last to come counts the meeting, which the others wait for: they spin, then sleep on it in a
  futex. A waiter announces that it sleeps before it looks again, and the last looks for sleepers
  after it has counted (sequentially consistent), so no wake-up is lost.
* How long they spin halves whenever one sleeps for long, and doubles where it was not for long. On
  more threads than processors, a barrier then costs two context switches (some 8 µs) rather than
  all of the spinning (50 to 150 µs were seen).
* Threads that take turns sleeping look to Linux like one, and where no processor is idle it keeps
  them on the same (seen: 20 µs a step, one thread 7 µs, apart 5 µs). A worker that is woken up on
  its waker's processor moves away; its set of processors stays as it was.
"""

from __future__ import annotations

BARRIER_TEMPLATE = r"""
@arrived = internal global i32 0, align 64         ; threads at the barrier
@meetings = internal global i32 0, align 64        ; barriers passed; threads wait for it to change
@sleepers = internal global i32 0, align 4         ; threads that may sleep on it
@waker = internal global i32 -1, align 64          ; processor of whoever last woke up others
@patience = internal global i32 $SPINS, align 64   ; how long a thread at the barrier spins

declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal void @note_waker() {
  %cpu = call i32 @sched_getcpu()
  store atomic i32 %cpu, ptr @waker monotonic, align 4
  ret void
}

; For a worker that slept. Where it was woken up on its waker's processor, which has work of its
; own, it asks for any other; where there is none, it spins less from now on, for each pause takes
; time from its waker. Anywhere else it may spin as long as any.
define internal void @keep_apart() {
  %mask = alloca [128 x i8], align 8
  %cpu = call i32 @sched_getcpu()
  %other = load atomic i32, ptr @waker monotonic, align 4
  %same = icmp eq i32 %cpu, %other
  br i1 %same, label %look, label %apart
apart:
  store atomic i32 $SPINS, ptr @worker_patience monotonic, align 4
  ret void
look:
  %failed = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %known = icmp eq i32 %failed, 0
  %listed = icmp ult i32 %cpu, 1024
  %try = and i1 %known, %listed
  br i1 %try, label %move, label %stay
move:
  %byte = lshr i32 %cpu, 3
  %at = getelementptr i8, ptr %mask, i32 %byte
  %all = load i8, ptr %at, align 1
  %low = trunc i32 %cpu to i8
  %place = and i8 %low, 7
  %bit = shl i8 1, %place
  %rest = xor i8 %bit, -1
  %others = and i8 %all, %rest
  store i8 %others, ptr %at, align 1
  %nowhere = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  %moved = icmp eq i32 %nowhere, 0
  br i1 %moved, label %restore, label %stay
restore:
  store i8 %all, ptr %at, align 1
  %restored = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  ret void
stay:
  call void @lose_patience(ptr @worker_patience)
  store atomic i32 $FEWEST, ptr @leader_patience monotonic, align 4
  store atomic i32 $FEWEST, ptr @patience monotonic, align 4
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
  %limit = load atomic i32, ptr @patience monotonic, align 4
  %soon = call i1 @spin_while(ptr @meetings, i32 %now, i32 %limit)
  br i1 %soon, label %done, label %late
late:
  %one.more = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 4
  call void @learn_while(ptr @meetings, i32 %now, ptr @patience)
  %one.less = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 4
  %worker = icmp ne i64 %thread, 0
  br i1 %worker, label %move, label %done
move:
  call void @keep_apart()
  br label %done
done:
  ret void
}
"""
