"""Kernels for NVIDIA GPUs: loop IR with grid and block loops → CUDA C++, and its twin on a CPU.

Read ``form_launches`` (loops become launches of blocks of threads), ``print_cuda`` (their text),
``prelude.cuh`` (all that the text calls) and ``twin.hpp`` (the same calls on a CPU).
"""
