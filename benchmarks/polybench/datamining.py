"""PolyBench 4.2.1, datamining: correlation, covariance."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined, valid-type, no-untyped-def, index, operator"

import math
from typing import Any

import numpy as np

import weft
from weft.benchmarks.polybench.benchmark import (
    Arguments,
    Array,
    Benchmark,
    as_dtype,
    broadcast,
    filled,
    grid,
    noisy,
)
from weft.ir.dtypes import DType

_SIZES = ((28, 32), (80, 100), (240, 260), (1200, 1400), (2600, 3000))


def correlation(real: DType) -> Any:
    @weft.kernel
    def correlation(
        float_n: real,
        data: real["N", "M"],
        corr: real["M", "M"],
        mean: real["M"],
        stddev: real["M"],
    ):
        eps = 0.1
        for j in range(M):
            mean[j] = 0.0
            for i in range(N):
                mean[j] += data[i, j]
            mean[j] /= float_n
        for j in range(M):
            stddev[j] = 0.0
            for i in range(N):
                stddev[j] += (data[i, j] - mean[j]) * (data[i, j] - mean[j])
            stddev[j] /= float_n
            stddev[j] = math.sqrt(stddev[j])
            stddev[j] = 1.0 if stddev[j] <= eps else stddev[j]
        for i in range(N):
            for j in range(M):
                data[i, j] -= mean[j]
                data[i, j] /= math.sqrt(float_n) * stddev[j]
        for i in range(M - 1):
            corr[i, i] = 1.0
            for j in range(i + 1, M):
                corr[i, j] = 0.0
                for k in range(N):
                    corr[i, j] += data[k, i] * data[k, j]
                corr[j, i] = corr[i, j]
        corr[M - 1, M - 1] = 1.0

    return correlation


def correlation_inputs(real: np.dtype[Any], M: int, N: int) -> Arguments:
    i, j = grid(N, M)
    data = broadcast((i * j) / max(M, 1) + i, N, M)
    given = {
        "float_n": float(N),
        "data": data,
        "corr": filled(M, M),
        "mean": filled(M),
        "stddev": filled(M),
    }
    return as_dtype(given, real)


def correlation_oracle(
    float_n: float, data: Array, corr: Array, mean: Array, stddev: Array
) -> Arguments:
    mean = data.sum(axis=0) / float_n
    stddev = np.sqrt(((data - mean) ** 2).sum(axis=0) / float_n)
    stddev = np.where(stddev <= 0.1, 1.0, stddev)
    data = (data - mean) / (math.sqrt(float_n) * stddev)
    corr = data.T @ data
    np.fill_diagonal(corr, 1.0)
    return {"data": data, "corr": corr, "mean": mean, "stddev": stddev}


def covariance(real: DType) -> Any:
    @weft.kernel
    def covariance(float_n: real, data: real["N", "M"], cov: real["M", "M"], mean: real["M"]):
        for j in range(M):
            mean[j] = 0.0
            for i in range(N):
                mean[j] += data[i, j]
            mean[j] /= float_n
        for i in range(N):
            for j in range(M):
                data[i, j] -= mean[j]
        for i in range(M):
            for j in range(i, M):
                cov[i, j] = 0.0
                for k in range(N):
                    cov[i, j] += data[k, i] * data[k, j]
                cov[i, j] /= float_n - 1.0
                cov[j, i] = cov[i, j]

    return covariance


def covariance_inputs(real: np.dtype[Any], M: int, N: int) -> Arguments:
    i, j = grid(N, M)
    data = broadcast((i * j) / max(M, 1), N, M)
    given = {"float_n": float(N), "data": data, "cov": filled(M, M), "mean": filled(M)}
    return as_dtype(given, real)


def covariance_oracle(float_n: float, data: Array, cov: Array, mean: Array) -> Arguments:
    mean = data.sum(axis=0) / float_n
    data = data - mean
    with np.errstate(invalid="ignore"):  # of one row: 0 / 0
        cov = data.T @ data / (float_n - 1.0)
    return {"data": data, "cov": cov, "mean": mean}


BENCHMARKS = (
    Benchmark(
        "correlation", correlation, correlation_inputs, correlation_oracle,
        lambda M, N: 1.0 * M * M * N,
        ("M", "N"), _SIZES, matrix=True,
        regular=noisy(correlation_inputs),
    ),
    Benchmark(
        "covariance", covariance, covariance_inputs, covariance_oracle,
        lambda M, N: 1.0 * M * M * N,
        ("M", "N"), _SIZES, matrix=True,
        regular=noisy(covariance_inputs),
    ),
)  # fmt: skip
