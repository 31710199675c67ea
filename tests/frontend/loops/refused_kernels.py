"""Functions that are no kernels.

The offending line of each ends in a comment: the code of the refusal, then words of its message.
"""

# ruff: noqa: B007, F821, F841

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import weft

REFUSED: dict[str, Callable[..., Any]] = {}
M = 4
names = ["a"]


def refused(function: Callable[..., Any]) -> Callable[..., Any]:
    REFUSED[function.__name__] = function
    return function


@weft.kernel
def scale(row: weft.f64["K"], by: weft.f64):
    for i in range(K):
        row[i] *= by


@weft.kernel
def square(A: weft.f64["K", "K"]):
    for i in range(K):
        A[i, i] = 1


@refused
def untyped(A):  # E0161 argument A has no type
    A[0] = 1


@refused
def of_no_type(A: M):  # E0161 M is no type
    A[0] = 1


@refused
def odd_size(A: weft.f64["N ** 2"]):  # E0161 is no size
    A[0] = 1


@refused
def default(A: weft.f64["N"], k: int = 3):  # E0161 default
    A[0] = 1


@refused
def size_and_array(N: weft.f64["N"]):  # E0161 a size and an array
    N[0] = 1


@refused
def does_nothing(A: weft.f64["N"]):  # E0162 assigns nothing
    pass


@refused
def endless(A: weft.f64["N"]):
    i = 0
    while i < N:  # E0162 `while` cannot stand | a for loop over a range
        A[i] = 1
        i += 1


@refused
def breaks(A: weft.f64["N"]):
    for i in range(N):
        if A[i] > 0:
            break  # E0162 `break`


@refused
def returns(A: weft.f64["N"]):
    A[0] = 1
    return A[0]  # E0162 `return` cannot stand | an array argument


@refused
def loops_and_else(A: weft.f64["N"]):
    for i in range(N):  # E0162 no else
        A[i] = 1
    else:
        A[0] = 2


@refused
def asserts_data(A: weft.f64["N"]):
    assert A[0] > 0  # E0162 one condition on sizes
    A[0] = 1


@refused
def with_other(A: weft.f64["N"]):
    with open("x"):  # E0162 `with` names statements
        A[0] = 1


@refused
def too_few_values(A: weft.f64["N"]):
    A[0], A[1] = A[1], A[0], 3  # E0162 2 targets need as many


@refused
def attribute_target(A: weft.f64["N"]):
    A.x = 1  # E0162 A.x cannot be assigned to


@refused
def makes_a_list(A: weft.f64["N"]):
    for i in range(N):
        A[i] = [1][0]  # E0163 cannot stand in a loop kernel | it is a list


@refused
def looks_for_membership(A: weft.f64["N"]):
    for i in range(N):
        if i in (1, 2):  # E0163 it is `in` and `is` | i == 1 or i == 2
            A[i] = 1


@refused
def adds_conditions(A: weft.f64["N"]):
    A[0] = (A[1] > 0) + 1  # E0166 stands where bool is needed | int(…)


@refused
def yields(A: weft.f64["N"]):
    yield A[0]  # E0162 `an expression alone`


@refused
def size_below_nothing(A: weft.f64[-3]):  # E0161 is no size
    A[0] = 1


@refused
def calls_python(A: weft.f64["N"]):
    A[0] = sorted(A[0])  # E0163 sorted cannot be called


@refused
def a_function_that_is_not_there(A: weft.f64["N"]):
    A[0] = math.hypot(A[0], 1.0)  # E0163 there are abs, acos | fmod | tanh


@refused
def an_array_is_no_number(A: weft.f64["N", "N"]):
    A[0, 0] = A[0] + 1  # E0163 array of 1 dimensions where a number


@refused
def unknown_attribute(A: weft.f64["N"]):
    A[0] = A.size  # E0163 shape, and no size


def twice(x):
    x = x + 1
    return x * 2


@refused
def calls_several_statements(A: weft.f64["N"]):
    A[0] = twice(A[0])  # E0163 more than one return statement


@refused
def keyword_argument(A: weft.f64["N"]):
    A[0] = max(A[0], 1.0, key=abs)  # E0163 plain arguments


@refused
def wrong_array(A: weft.f64["N"]):
    tmp = np.zeros()  # E0163 a shape and a dtype
    A[0] = 1


@refused
def two_argument_float(A: weft.f64["N"]):
    A[0] = float(1, 2)  # E0163 one argument


@refused
def bounds_from_data(A: weft.f64["N"], n: weft.i32["N"]):
    for i in range(n[0]):  # E0164 depends on data | computed from n
        A[i] = 1


@refused
def bounds_not_affine(A: weft.f64["N"]):
    for i in range(N):
        for j in range(i * i):  # E0164 not affine | the exact bound as an `if`
            A[j] = 1


@refused
def size_that_varies(A: weft.f64["N"]):
    for i in range(N):
        tmp = weft.zeros(i)  # E0164 not one number
        A[i] = 0


@refused
def misspelt(A: weft.f64["N"]):
    A[0] = alhpa  # E0165 there is no alhpa


@refused
def too_early(A: weft.f64["N"]):
    A[0] = s  # E0165 before it is assigned
    s = 1.0


@refused
def loop_variable_after_loop(A: weft.f64["N"]):
    for i in range(N):
        A[i] = 1
    A[0] = i  # E0165 variable of the loop at line


@refused
def array_of_a_branch(A: weft.f64["N"], B: weft.f64["N"]):
    row = A
    if N > 3:
        row = B
    row[0] = 1  # E0165 no one meaning | depends on the condition


@refused
def mixed(A: weft.f32["N"], B: weft.f64["N"]):
    A[0] = A[0] * B[0]  # E0166 float32 meets float64 | weft.float32(


@refused
def narrowed(A: weft.f32["N"], B: weft.f64["N"]):
    A[0] = B[0]  # E0166 float64 stands where float32


@refused
def fraction_in_integers(A: weft.i32["N"]):
    A[0] = 0.5  # E0166 Python number


@refused
def too_large(A: weft.i64["N"]):
    A[0] = 1 << 64  # E0166 does not fit 64 bits


@refused
def huge(A: weft.i64["N"]):
    A[0] = 99999999999999999999  # E0166 does not fit 64 bits


@refused
def bits_of_floats(A: weft.f64["N"]):
    A[0] = A[0] & A[1]  # E0103 and does not take


@refused
def too_many_subscripts(A: weft.f64["N"]):
    A[0, 0] = 1  # E0167 2 subscripts


@refused
def float_subscript(A: weft.f64["N"]):
    A[0.5] = 1  # E0167 an integer is needed


@refused
def step_slice(A: weft.f64["N"]):
    A[::2] = 1  # E0167 step 1


@refused
def not_an_array(A: weft.f64["N"], x: weft.f64):
    A[0] = x[0]  # E0167 no array


@refused
def shape_of_nothing(A: weft.f64["N"]):
    A[0] = A.shape[1]  # E0167 none of its entries


@refused
def over_a_list(A: weft.f64["N"]):
    for name in names:  # E0168 nothing that a kernel can loop over
        A[0] = 1


@refused
def over_an_array(A: weft.f64["N"]):
    for x in A:  # E0168 nothing that a kernel can loop over
        A[0] = 1


@refused
def zero_step(A: weft.f64["N"]):
    for i in range(0, N, 0):  # E0168 not a number other than 0
        A[i] = 1


@refused
def step_of_size(A: weft.f64["N"]):
    for i in range(0, N, N):  # E0168 not a number other than 0
        A[i] = 1


@refused
def calls_print(A: weft.f64["N"]):
    print(A[0])  # E0169 print is no kernel
    A[0] = 1


@refused
def calls_with_too_much(A: weft.f64["N"]):
    scale(A, 2, 3)  # E0169 takes 2 arguments, not 3


@refused
def calls_with_unknown(A: weft.f64["N"]):
    scale(A, times=3)  # E0169 takes row, by


@refused
def calls_with_numbers(A: weft.f64["N"]):
    scale(A[0], 2.0)  # E0169 no array


@refused
def calls_with_other_rank(A: weft.f64["N", "N"]):
    scale(A, 2.0)  # E0169 2 dimensions, is passed as row


@refused
def calls_with_other_dtype(A: weft.f64["N"], B: weft.f32["N"]):
    scale(A, B[0])  # E0169 argument by


@refused
def whole_assignment(A: weft.f64["N", "N"], B: weft.f64["N", "N"]):
    A[:, 0] = B[0]  # E0170 not whole arrays | for i in range(A.shape[0])


@refused
def rebinds_an_argument(A: weft.f64["N"], B: weft.f64["N"]):
    A = B  # E0171 A cannot be assigned: it is an argument
    A[0] = 1


@refused
def assigns_a_size(A: weft.f64["N"]):
    N = 3  # E0171 a size
    A[0] = 1


@refused
def assigns_a_loop_variable(A: weft.f64["N"]):
    for i in range(N):
        i += 1  # E0171 variable of a loop
        A[i] = 1


@refused
def loops_over_a_size(A: weft.f64["N"]):
    for N in range(3):  # E0171 N is a size
        A[N] = 1


@refused
def triangle(A: weft.f64["N", "N"]):
    for i in range(N):
        square(A[i:, :])  # E0172 sizes of A do not fit
