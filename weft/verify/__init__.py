"""``WEFT_VERIFY=full``: every IR interpreted on a small instance, the first pass that diverges
named.

``shrink`` makes the instance, ``oracle`` its data, ``ladder`` climbs from interpreter to
interpreter; ``verify_full`` is the door, for operator graphs and loop kernels. What becomes affine
statements meets in ``verify_scop``, what becomes a host program in ``verify_program``.
``verify_artifact`` is apart: ``weft check``, which proves again what an artifact was compiled as.
"""
