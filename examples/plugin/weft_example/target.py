"""A target: a processor as data. What it can do follows from LLVM's name of it."""

import weft

cpu = weft.Cpu(
    name="example-cpu",
    architecture=weft.X86_64,
    llvm="x86-64-v3",
    caches=(weft.Cache(48 << 10), weft.Cache(512 << 10), weft.Cache(4 << 20, cores=4)),
    cores=4,
    rates={"frequency": 2.1e9},
)
