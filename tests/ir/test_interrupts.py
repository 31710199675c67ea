"""Ctrl-C at any moment: whatever is compiled and called afterwards is as if it had never come.

``_UNTIL`` raises it from an audit hook, when a certain module is about to be imported.
"""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import weft
from weft.ir.interrupts import uninterrupted

_UNTIL = """
import signal, sys
import weft

due = [sys.argv[1]]

def strike(event, given):
    if event == "import" and due and given[0] == due[0]:
        due.clear()
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.addaudithook(strike)
try:
    work()
    assert not due, "never imported"
    raise SystemExit("the interrupt was lost")
except KeyboardInterrupt:
    print(work(), work())
"""
_TENSORS = """
def work():
    A = weft.placeholder((3, 4), name="A")
    B = weft.compute((4, 3), lambda i, j: A[j, i] * 2, name="B")
    C = weft.compute((4, 3), lambda i, j: weft.exp(B[i, j]), name="C")
    options = weft.Options(cache=False, workers=0)
    import numpy as np

    b, c = weft.compile([B, C], options=options)(np.zeros((3, 4), np.float32))
    return b.shape == (4, 3) and bool((c == 1).all())
"""
_MODEL = """
from onnx import TensorProto, helper

def work():
    import numpy as np

    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (2, 4)) for n in "xy")
    node = helper.make_node("Softmax", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]))
    options = weft.Options(cache=False, workers=0)
    y = weft.compile(model, options=options)(np.zeros((2, 4), np.float32))
    return y.shape == (2, 4) and bool((y == 0.25).all())
"""


@pytest.fixture(autouse=True)
def heard():
    """Jobs in the background of a shell ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.long
@pytest.mark.parametrize(
    ("work", "module"),
    [
        (_TENSORS, "networkx.algorithms.dag"),
        (_TENSORS, "networkx.classes.digraph"),
        (_TENSORS, "numpy.linalg"),
        (_TENSORS, "ml_dtypes"),
        (_TENSORS, "islpy._isl"),
        (_TENSORS, "llvmlite.binding.targets"),
        (_TENSORS, "onnx.checker"),
        (_TENSORS, "msgspec._core"),
    ],
)
def test_an_interrupted_first_compilation_leaves_no_half_imported_package(work, module):
    found = subprocess.run(
        [sys.executable, "-c", work + _UNTIL, module], capture_output=True, text=True
    )
    assert (found.stdout, found.returncode) == ("True True\n", 0), found.stderr


_REGISTERED = """
import signal
import weft
from weft.frontend.onnx import context
from weft.frontend.operators import registry

def striking(register, name):
    def wrapped(first, **more):
        if first == name:
            due.append(name)
            signal.raise_signal(signal.SIGINT)
        return register(first, **more)
    return wrapped

due = []
signal.signal(signal.SIGINT, signal.default_int_handler)
registry.operator = striking(registry.operator, "OPERATOR")
context.handler = striking(context.handler, "HANDLER")
try:
    work()
    raise SystemExit("the interrupt was lost")
except KeyboardInterrupt:
    assert due
print(work(), work())
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("operator", "handler"), [("log_softmax", ""), ("", "LogSoftmax"), ("global_average_pool", "")]
)
def test_a_family_of_operators_is_there_as_a_whole_or_not_at_all(operator, handler):
    script = _MODEL + _REGISTERED.replace("OPERATOR", operator).replace("HANDLER", handler)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (found.stdout, found.returncode) == ("True True\n", 0), found.stderr


def test_ctrl_c_waits_for_the_end_and_then_takes_effect():
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_application_gets_it_and_stays():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("hers"))
    hers = signal.getsignal(signal.SIGINT)
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            assert seen == []
        assert seen == ["hers"] and signal.getsignal(signal.SIGINT) is hers
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_may_import_too():
    done = []

    def work():
        with uninterrupted():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


@pytest.mark.parametrize("calls", ["plain", "bound"])
def test_a_call_that_failed_unheard_leaves_the_next_one_alone(calls, monkeypatch):
    """Ctrl-C during a native call is raised as it returns, before its status is looked at."""
    A = weft.placeholder((4,), name="A")
    at = weft.placeholder((2,), dtype="int64", name="at")
    picked = weft.compute((2,), lambda i: A[at[i]], name="B")
    program = weft.compile(picked)
    a, indices = np.arange(4, dtype=np.float32), np.array([0, 9])
    call = program.bind(a, indices) if calls == "bound" else lambda: program(a, indices)
    with monkeypatch.context() as patch:
        patch.setattr(weft.Executable, "_failed", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            program(a, indices) if calls == "plain" else call.native() and _interrupted()
    indices[1] = 3
    assert call().tolist() == [0, 3]


def _interrupted(*_):
    raise KeyboardInterrupt


def test_a_call_interrupted_on_the_way_in_leaves_no_address_behind():
    """The tables of a call are used again only by one that has the same arguments."""
    A = weft.placeholder((4,), name="A")
    program = weft.compile(weft.compute((4,), lambda i: A[i] + 1, name="B"))
    first, second = np.zeros(4, np.float32), np.full(4, 7, np.float32)
    assert program(first).tolist() == [1] * 4
    assert program(first).tolist() == [1] * 4  # the short way, from now on
    with pytest.raises(KeyboardInterrupt):
        program._frames[0].fill([second.ctypes.data], map(_interrupted, [0]))
    assert program(first).tolist() == [1] * 4


def test_an_interrupt_between_quotas_leaves_none_behind(monkeypatch):
    """isl counts for nobody once all who set limits are gone."""
    from weft.ir import isl_context

    calls = []

    def counting():
        calls.append(len(isl_context._limits))
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(isl_context, "_start_counting", counting)
    with pytest.raises(KeyboardInterrupt), isl_context.bounded(10):
        pass
    assert isl_context._limits == [] and calls == [1, 0]
