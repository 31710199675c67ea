"""Where the threads of a region meet, as LLVM IR: a part of ``llvm_runtime``'s module.

* The last to come counts the meeting, which the others wait for: they spin, then sleep on it in a
  futex. A waiter announces that it sleeps before it looks again, and the last looks for sleepers
  after it has counted (sequentially consistent), so no wake-up is lost.
* How long they spin halves whenever one goes to sleep and grows slowly while none does. On more
  threads than processors, ours or others', a barrier then costs two context switches (some 8 µs)
  rather than all of the spinning (50 to 150 µs were seen).
* Threads that take turns sleeping look to Linux like one, and where no processor is idle it keeps
  them on the same (seen: 20 µs a step, one thread 7 µs, apart 5 µs). A worker that is woken up on
  its waker's processor ``OFTEN`` times in a row moves away; its set of processors stays as it was.
"""

from __future__ import annotations

OFTEN = 16

BARRIER_TEMPLATE = r"""
@arrived = internal global i32 0, align 64         ; threads at the barrier
@meetings = internal global i32 0, align 64        ; barriers passed; threads wait for it to change
@sleepers = internal global i32 0, align 4         ; threads that may sleep on it
@waker = internal global i32 -1, align 64          ; processor of whoever last woke up others
@together = internal global i32 0, align 4         ; how often in a row a worker woke up there
@patience = internal global i32 $SPINS, align 64   ; how long a thread at the barrier spins

declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @llvm.umax.i32(i32, i32)

define internal void @note_waker() {
  %cpu = call i32 @sched_getcpu()
  store atomic i32 %cpu, ptr @waker monotonic, align 4
  ret void
}

; For a worker that slept: where it was woken up on its waker's processor time and again, it asks
; for any other, once.
define internal void @keep_apart() {
  %mask = alloca [128 x i8], align 8
  %cpu = call i32 @sched_getcpu()
  %other = load atomic i32, ptr @waker monotonic, align 4
  %same = icmp eq i32 %cpu, %other
  br i1 %same, label %count, label %apart
apart:
  store atomic i32 0, ptr @together monotonic, align 4
  ret void
count:
  call void @lose_patience(ptr @worker_patience)
  %before = atomicrmw add ptr @together, i32 1 monotonic, align 4
  %often = icmp uge i32 %before, $OFTEN
  %listed = icmp ult i32 %cpu, 1024
  %try = and i1 %often, %listed
  br i1 %try, label %look, label %done
look:
  store atomic i32 0, ptr @together monotonic, align 4
  %failed = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %known = icmp eq i32 %failed, 0
  br i1 %known, label %move, label %done
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
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  store i8 %all, ptr %at, align 1
  %restored = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
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
  %limit = load atomic i32, ptr @patience monotonic, align 4
  br label %spin
spin:
  %count = phi i32 [ 0, %come ], [ %next, %again ]
  %seen = load atomic i32, ptr @meetings acquire, align 4
  %changed = icmp ne i32 %seen, %now
  br i1 %changed, label %spun, label %again
again:
  $PAUSE
  %next = add i32 %count, 1
  %more = icmp ult i32 %next, %limit
  br i1 %more, label %spin, label %announce
spun:
  %impatient = icmp ult i32 %limit, $SPINS
  br i1 %impatient, label %longer, label %done
longer:
  %up = add i32 %limit, $STEP
  store atomic i32 %up, ptr @patience monotonic, align 4
  br label %done
announce:
  call void @lose_patience(ptr @patience)
  %one.more = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 4
  br label %check
check:
  %late = load atomic i32, ptr @meetings seq_cst, align 4
  %late.changed = icmp ne i32 %late, %now
  br i1 %late.changed, label %awake, label %sleep
sleep:
  call void @futex_wait(ptr @meetings, i32 %now)
  br label %check
awake:
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
