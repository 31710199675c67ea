"""``@weft.kernel``: a plain Python function of affine loops, compiled when it is first called."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from types import CellType, FunctionType
from typing import Any, overload

import numpy as np

from weft.driver.cluster_code import automatic_schedule
from weft.driver.compiler import lower_loops
from weft.driver.loop_front import scop_of
from weft.driver.options import Options, options_or_default
from weft.driver.passes import Passes
from weft.driver.schedule_value import Schedule, Subject, not_a_schedule
from weft.driver.targets import target_for
from weft.frontend.loops.lower import LoopKernel, lower_kernel
from weft.frontend.loops.source import LoopFunction
from weft.ir.errors import CallError
from weft.ir.scop import Scop
from weft.ir.size_arithmetic import SizeError, bind
from weft.polyhedral.transform.initial import initial
from weft.polyhedral.transform.scheduled import Scheduled
from weft.runtime.arguments import arrange
from weft.runtime.bound_call import BoundCall
from weft.runtime.compiled import ArraySpec
from weft.runtime.executable import Executable
from weft.verify.verify_full import compile_and_verify_kernel


class Kernel(LoopFunction):
    """A loop kernel: ``weft.kernel`` makes it of a ``function``, with ``options`` of its own (None:
    what the environment says).

    ``kernel(*arguments, **by_name)`` compiles on the first call, for all sizes, and works in
    place: arrays that the function writes are overwritten in the caller's memory, of the dtypes and
    shapes that the signature declares. Raises ``CompileError`` on the first call, ``CallError`` for
    arguments that do not fit, and ``ExecutionError`` where a data-dependent index is out of range.
    """

    def __init__(self, function: Callable[..., Any], options: Options | None = None) -> None:
        super().__init__(function)
        self.__name__ = getattr(function, "__name__", "kernel")
        self.__doc__ = function.__doc__
        self.__module__ = getattr(function, "__module__", "")
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__wrapped__ = function
        self._options = options
        self._lowered: LoopKernel | None = None
        self._scops: dict[bool, Scop] = {}  # by ``Options.strict``
        self._executable: Executable | None = None
        self._compiling = RLock()

    def __call__(self, /, *arguments: object, **by_name: object) -> None:
        executable = self._executable or self._compiled()
        if by_name:
            arguments = tuple(arrange(executable.inputs, arguments, by_name))
        executable(*arguments)

    def bind(self, /, *arguments: object, **by_name: object) -> BoundCall:
        """A call of these ``arguments``, in order or ``by_name``, to make again and again, as
        ``Executable.bind`` has it. Raises ``CallError``, and ``CompileError`` on the first use."""
        executable = self._executable or self._compiled()
        return executable.bind(*arrange(executable.inputs, arguments, by_name))

    def _compiled(self) -> Executable:
        """What calls run; threads that call at the same time compile it once."""
        with self._compiling:
            if self._executable is None:
                self._executable = self.compile()
            return self._executable

    @property
    def executable(self) -> Executable:
        """What calls run. Raises ``CompileError``."""
        return self._executable or self._compiled()

    @property
    def lowered(self) -> LoopKernel:
        """Its statements as written. Raises ``CompileError``."""
        if self._lowered is None:
            self._lowered = lower_kernel(self)
        return self._lowered

    @property
    def scop(self) -> Scop:
        """Its affine statements, for the sizes for which no access is out of bounds. Raises
        ``CompileError``."""
        return self._scop_for(self.options)

    def _scop_for(self, options: Options) -> Scop:
        """``scop``, with its sums in order where ``options`` say so."""
        if options.strict not in self._scops:
            passes = Passes(options, self.__name__)
            self._scops[options.strict] = scop_of(self.lowered, passes)
        return self._scops[options.strict]

    @property
    def options(self) -> Options:
        """Those that it was made with, else what the environment says now."""
        return options_or_default(self._options)

    def compile(
        self, schedule: Schedule | None = None, *, options: Options | None = None
    ) -> Executable:
        """The kernel as an executable that takes the same arguments and returns the arrays that it
        has overwritten.

        ``schedule``: one of this kernel's, instead of an automatic one. ``options``: instead of the
        kernel's own. Raises ``CompileError``: WEFT-E0015 where ``schedule`` is none.
        """
        given = self.options if options is None else options_or_default(options)
        return compile_and_verify_kernel(self.lowered, given, _scheduled(schedule))

    def lower(
        self, schedule: Schedule | None = None, *, options: Options | None = None
    ) -> dict[str, str]:
        """Stage -> the text after it, without machine code; ``schedule`` and ``options`` as
        ``compile`` has them. Raises ``CompileError``: WEFT-E0015 where ``schedule`` is none."""
        given = self.options if options is None else options_or_default(options)
        return lower_loops(self.lowered, given, _scheduled(schedule)).passes.texts

    def schedule(self, *, options: Options | None = None) -> Schedule:
        """The order of the source, as a value to change and to compile. ``options``: what its
        ``automatic`` chooses for, the kernel's own by default."""
        given = self.options if options is None else options_or_default(options)
        machine = target_for(given).machine
        subject = Subject(
            f"weft.schedule({self.__name__})",
            lambda schedule, chosen: self.compile(schedule, options=chosen),
            lambda scop: automatic_schedule(scop, machine, given),
        )
        return Schedule(initial(self._scop_for(given), machine.extensions), subject)

    def explain(self, *, details: bool = False) -> str:
        """Statements, dependences and the schedule, and what depends on data; with ``details``,
        what decisions would have cost otherwise, which takes seconds, and what does not apply."""
        return (self._executable or self._compiled()).explain(details=details)

    def python(self, /, *arguments: Any, **by_name: Any) -> None:
        """Run the function itself, in Python: slow, and independent of the compiler.

        ``arguments``, in order or ``by_name``, are those of a call. Sizes of the signature are its
        global names; kernels that it calls run in Python too. Raises ``CallError``: WEFT-E0605
        where sizes do not fit.
        """
        specs = [ArraySpec(a.name, a.dtype, a.shape) for a in self.lowered.arguments]
        given: list[Any] = arrange(specs, arguments, by_name)
        known = {
            a.name: int(v)
            for a, v in zip(self.lowered.arguments, given, strict=True)
            if a.kind == "parameter"
        }
        shapes = [np.shape(value) for value in given]
        try:
            declared, called = [spec.shape for spec in specs], [spec.name for spec in specs]
            sizes = bind(declared, shapes, (), known, called)
        except SizeError as error:
            raise CallError("WEFT-E0605", f"sizes do not fit: {error}") from None
        _with_names(self.function, sizes)(*given)

    def __reduce__(self) -> str:
        """Copied and pickled by name, as functions are."""
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<weft.Kernel {self.__name__}>"


def _scheduled(schedule: Schedule | None) -> Scheduled | None:
    if schedule is not None and not isinstance(schedule, Schedule):
        raise not_a_schedule("schedule", schedule)
    return None if schedule is None else schedule.scheduled


def _with_names(function: Callable[..., Any], sizes: dict[str, int]) -> Callable[..., Any]:
    """``function`` with ``sizes`` among its globals, and kernels as Python functions."""
    assert isinstance(function, FunctionType)
    names = {name: _in_python(value) for name, value in function.__globals__.items()}
    made = FunctionType(
        function.__code__,
        {**names, **sizes},
        function.__name__,
        function.__defaults__,
        tuple(CellType(_in_python(cell.cell_contents)) for cell in function.__closure__ or ()),
    )
    return made


def _in_python(value: object) -> object:
    return value.python if isinstance(value, Kernel) else value


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(*, options: Options | None = None) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None, /, *, options: Options | None = None
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make ``function``, affine loops over arrays, a kernel that is compiled for any sizes.

    ::

        @weft.kernel
        def lu(A: weft.f64["N", "N"]):
            for i in range(N):
                for j in range(i):
                    for k in range(j):
                        A[i, j] -= A[i, k] * A[k, j]
                    A[i, j] /= A[j, j]
                …

    ``@weft.kernel(options=…)`` compiles with these ``options``. Nothing is read or compiled until
    the kernel is called or asked for its parts. Raises ``CompileError`` (WEFT-E0003) for what are
    no options. docs/loop-kernels.md has the language.
    """
    if options is not None:
        options_or_default(options)
    if function is None:
        return lambda function: Kernel(function, options)
    return Kernel(function, options)
