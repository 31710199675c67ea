"""When instructions run, for Perfetto and ``chrome://tracing``: a track for each queue.

The format is Chrome's trace events, as JSON; a cycle is shown as a microsecond.
"""

from __future__ import annotations

import json

from weft.accel.instruction_stream import Stream
from weft.accel.timing import Timing


def trace(stream: Stream, timing: Timing) -> str:
    """The JSON text of ``timing`` of ``stream``."""
    machine = stream.accelerator
    tracks = {queue.name: number for number, queue in enumerate(machine.queues)}
    events: list[dict[str, object]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "args": {"name": machine.name}}
    ]
    for name, track in tracks.items():
        about = {"ph": "M", "pid": 0, "tid": track}
        events.append({"name": "thread_name", **about, "args": {"name": name}})
        events.append({"name": "thread_sort_index", **about, "args": {"sort_index": track}})
    for number, (issue, span) in enumerate(zip(stream.issues, timing.spans, strict=True)):
        events.append({
            "name": issue.operation,
            "ph": "X",
            "pid": 0,
            "tid": tracks[machine.operation(issue.operation).queue],
            "ts": span.begin,
            "dur": span.end - span.begin,
            "args": {"number": number, **{n: v for n, v in issue.fields.items() if v}},
        })  # fmt: skip
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
