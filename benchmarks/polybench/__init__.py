"""PolyBench 4.2.1 as loop kernels: programs in the published loop order, their data and oracles.

Reference: Pouchet and Yuki, PolyBench/C 4.2.1, 2016. Written from the definitions of the
algorithms; sizes and initial values are the published ones.
"""
