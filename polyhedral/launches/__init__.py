"""Launches of a GPU, judged as loop IR beside the proof of races (``proof/gpu.py``).

Is shared memory filled before it is read (``launch_memory``), do warps multiply what belongs
together (``fragments``)? What is said here is believed, as what ``proof/`` says; it is apart since
no schedule for a processor depends on it.
"""
