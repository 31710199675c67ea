"""What a model costs in a process of its own: compiling it, and the memory that running takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

# VmHWM, for ru_maxrss counts what the parent had before exec.
_PEAK = r"""
import re
from pathlib import Path
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
"""
_COMPILE = """
import sys, time
import weft
start = time.perf_counter()
options = weft.Options(cache_dir=sys.argv[2], threads=int(sys.argv[3]))
program = weft.compile(sys.argv[1], options=options)
print(time.perf_counter() - start)
print(program.stats["arena_bytes"], program.stats["intermediate_bytes"])
program.save(sys.argv[4])
"""
_RUN_WEFT = """
import sys
import numpy as np
import weft
program = weft.load(sys.argv[1], threads=int(sys.argv[3]))
with np.load(sys.argv[2]) as inputs:
    program.run(dict(inputs))
"""
_RUN_ONNXRUNTIME = """
import sys
import numpy as np
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(sys.argv[3])
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
with np.load(sys.argv[2]) as inputs:
    session.run(None, dict(inputs))
"""


def costs(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], threads: int
) -> dict[str, float]:
    """Seconds of compiling ``model`` of fixed shapes without and with a cache; bytes of its arena
    and of all intermediates; the peak memory of compiling, of running what was saved, and of
    onnxruntime running the model, in MiB."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, data, saved = (str(folder / n) for n in ("m.onnx", "inputs.npz", "m.weft"))
        onnx.save(model, source)
        np.savez(data, **dict(inputs))  # type: ignore[arg-type]
        for key in ("compile_s", "compile_cached_s"):
            numbers = _python(_COMPILE, source, str(folder / "cache"), str(threads), saved)
            seconds, arena, intermediate, peak = numbers
            found[key] = round(seconds, 2)
            found.setdefault("compile_peak_mib", int(peak) // 1024)
            found["arena_bytes"], found["intermediate_bytes"] = int(arena), int(intermediate)
        found["run_peak_mib"] = int(_python(_RUN_WEFT, saved, data, str(threads))[0]) // 1024
        try:
            peer = _python(_RUN_ONNXRUNTIME, source, data, str(threads))
            found["onnxruntime_run_peak_mib"] = int(peer[0]) // 1024
        except subprocess.CalledProcessError as error:  # not installed, or it refuses the model
            why = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
            print(f"onnxruntime's memory is not measured: {why}", file=sys.stderr)
    return found


def _python(code: str, *arguments: str) -> list[float]:
    """The numbers that ``code`` prints, and the peak memory of its process in KiB."""
    command = [sys.executable, "-c", code + _PEAK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]
