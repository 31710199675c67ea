"""One launch, from its leader's side, as LLVM IR: a part of ``llvm_runtime``'s module.

* The leader posts a share to each worker, runs its own, and then whatever has not been begun: a
  worker may still be waking up, or somebody else may have its processor. So a share belongs to
  whoever takes it, by making its worker's mailbox even; results are the same, for shares do not
  depend on who runs them. Threads of a region run at the same time, and have no such choice.
* What workers have begun is waited for.
"""

from __future__ import annotations

LAUNCH_TEMPLATE = r"""
define i32 @weft_launch(ptr %kernel, ptr %buffers, ptr %params, ptr %status, ptr %scratch,
                        i64 %stride, i64 %extent, i32 %team) {
entry:
  %any = icmp ne i64 %extent, 0
  br i1 %any, label %some, label %done
some:
  %region = icmp slt i64 %extent, 0
  %team64 = sext i32 %team to i64
  %least = call i64 @llvm.smin.i64(i64 %team64, i64 %extent)
  %n = select i1 %region, i64 %team64, i64 %least
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
  br i1 %finished, label %done, label %not.yet
not.yet:
  %soon = call i1 @spin_while(ptr @pending, i32 %left)
  br i1 %soon, label %wait, label %linger
linger:
  %after = call i1 @yield_while(ptr @pending, i32 %left, i64 $PATIENCE)
  br i1 %after, label %wait, label %late
late:
  store atomic i32 1, ptr @leader_sleeps seq_cst, align 4
  call void @sleep_while(ptr @pending, i32 %left)
  store atomic i32 0, ptr @leader_sleeps seq_cst, align 4
  call void @keep_apart()
  br label %wait
done:
  %code.p = getelementptr i64, ptr %status, i64 1
  %code64 = load i64, ptr %code.p, align 8
  %code = trunc i64 %code64 to i32
  ret i32 %code
}
"""
